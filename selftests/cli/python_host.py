# SPDX-License-Identifier: GPL-2.0
"""What python.sh runs on the hosts: python_host.py PART [HOST]. An exception is a failure."""
import array
import asyncio
import errno
import mmap
import sys
import zlib

import krdma
from krdma import Right

LENGTH = 4 << 20


def export() -> None:
    """Until the message 0 comes. Each message is a line."""
    rights = Right.READ | Right.WRITE | Right.MESSAGE
    with krdma.Mover() as mover:
        atomic = Right.ATOMIC if mover.list("devices")[0]["flags"] & 4 else Right(0)
        with mover.export("python", LENGTH, rights | atomic) as exported, exported.messages() as queue:
            assert exported.memory is not None
            print("exported", flush=True)
            for message in queue:
                print(message.value, message.data, message.written, zlib.crc32(exported.memory[:LENGTH // 2]), flush=True)
                if not message.value:
                    break


def moves(region: krdma.Region) -> None:
    numbers = array.array("Q", range(LENGTH // 16))
    assert region.write(numbers, verify=True) == LENGTH // 2
    assert region.read(LENGTH // 2) == numbers.tobytes()
    with region.mover.buffer(LENGTH) as buffer:
        region.read_into([buffer[4096:8192], buffer[1:5]], [(0, 4000), (8000, 100)])
        assert buffer.memory[4096:8096] == numbers.tobytes()[:4000]
        assert bytes(buffer.memory[8096:8192]) + bytes(buffer.memory[1:5]) == numbers.tobytes()[8000:8100]
    mapped = mmap.mmap(-1, 8192)
    mapped[100:103] = b"abc"
    region.write(memoryview(mapped)[100:103], LENGTH - 3, placed=True)
    assert region.read(3, LENGTH - 3) == b"abc"
    assert region.digest(0, 8) == region.digest([(0, 4), (4, 4)])
    if region.rights & Right.ATOMIC:
        region.write(bytes(8), LENGTH // 2)
        assert region.fetch_add(LENGTH // 2, 5) == 0
        assert region.compare_swap(LENGTH // 2, 5, 2 ** 63) == 5
        assert int.from_bytes(region.read(8, LENGTH // 2), "little") == 2 ** 63


def messages(region: krdma.Region) -> None:
    region.send(b"bytes", 7)
    region.write(b"x", message=8)


def in_asyncio(region: krdma.Region) -> None:
    async def piece(i: int) -> bytes:
        into = bytearray(65536)
        await region.mover.run(krdma.Write(region, bytes([i]) * 65536, i * 65536))
        await region.mover.run(krdma.Read(region, into, i * 65536))
        return bytes(into)

    async def main() -> None:
        pieces = await asyncio.gather(*(piece(i) for i in range(32)))
        assert all(found == bytes([i]) * 65536 for i, found in enumerate(pieces))
        for session in await asyncio.gather(*(region.mover.connect_async(sys.argv[2], private=True) for _ in range(2))):
            assert session.ping() > 0
            session.close()
        # Nobody has that address.
        waiting = asyncio.ensure_future(region.mover.connect_async("10.77.0.98", private=True))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    asyncio.run(main())


def errors(region: krdma.Region) -> None:
    for function, kind, number, text in (
            (lambda: region.read(1, LENGTH), krdma.Error, errno.ERANGE, "python"),
            (lambda: region.session.open("nosuch"), FileNotFoundError, errno.ENOENT, "nosuch"),
            (lambda: region.mover.connect("10.77.0.2:9", timeout=5), krdma.Error, 0, "10.77.0.2:9")):
        try:
            function()
        except kind as error:
            assert not number or error.errno == number, error
            assert text in str(error), error
        else:
            raise AssertionError(text)


def ends(region: krdma.Region) -> None:
    """With operations under way: their memory is Python's again when close() returns."""
    memory = [bytearray(1 << 20) for _ in range(16)]
    ops = [krdma.Read(region, into) for into in memory]
    assert region.mover.start(*ops) == 16
    region.mover.close()
    assert all(op.done for op in ops)
    del ops
    for into in memory:
        into.extend(b"more")


def main() -> None:
    part = sys.argv[1]
    if part == "export":
        export()
        return
    with krdma.Mover() as mover, mover.connect(sys.argv[2], messages=True) as session:
        with session.open("python") as region:
            if part == "over":
                region.send(b"", 0)
            else:
                {"moves": moves, "messages": messages, "asyncio": in_asyncio, "errors": errors, "ends": ends}[part](region)


main()
