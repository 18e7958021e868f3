# SPDX-License-Identifier: GPL-2.0
"""The module krdma of Python over tests/fake: no kernel module. Each function test_* is a test; prints TAP."""
import array
import asyncio
import contextlib
import ctypes
import errno
import gc
import mmap
import os
import select
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import weakref
from types import FrameType
from typing import Iterator, List, Optional, Type

import krdma
from krdma import Right
from krdma._base import ffi, lib

directory = tempfile.mkdtemp(prefix="krdma-python-")
# The fake has one device, and so one Mover at a time.
mover: krdma.Mover
session: krdma.Session


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """What the fake looks up by getenv(): os.environ tells C."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


@contextlib.contextmanager
def peer_export(name: str, content: bytes, mode: int = 0o600) -> Iterator[str]:
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(content)
    os.chmod(path, mode)
    try:
        yield path
    finally:
        os.unlink(path)


@contextlib.contextmanager
def raises(kind: Type[BaseException], number: int = 0, text: str = "") -> Iterator[None]:
    try:
        yield
    except kind as failure:
        if number:
            assert isinstance(failure, krdma.Error) and failure.errno == number, repr(failure)
        assert text in str(failure), str(failure)
    else:
        raise AssertionError(f"no {kind.__name__}")


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_a_foreign_language_finds_the_inline_functions() -> None:
    library = ctypes.CDLL("libkrdma.so.1")
    op = ffi.new("struct krdma_op *")
    library.krdma_op_cmp_swap(ctypes.c_void_p(int(ffi.cast("uintptr_t", op))), 7, ctypes.c_uint64(2 ** 40),
                              ctypes.c_void_p(4096), ctypes.c_uint64(2 ** 63), ctypes.c_uint64(9))
    assert (op.opcode, op.region, op.offset) == (lib.KRDMA_OP_CMP_SWAP, 7, 2 ** 40)
    assert (op.addr, op.length, op.compare, op.operand) == (4096, 8, 2 ** 63, 9)


def test_errors_are_os_errors_with_the_sentence() -> None:
    with raises(FileNotFoundError, errno.ENOENT, "the peer has no export 'nothing'"):
        session.open("nothing")
    with raises(krdma.Error, errno.ENOENT):
        session.open("nothing")
    with environment(KRDMA_FAKE_REFUSE="1"), raises(ConnectionRefusedError, errno.ECONNREFUSED, "nobody listens"):
        mover.connect("h")
    with raises(krdma.Error, errno.EINVAL, "[::1"):
        mover.connect("[::1")
    with raises(krdma.Error, errno.EINVAL, "longer than 63"):
        session.open("n" * 64)
    with peer_export("ro", b"12345678", 0o400), session.open("ro") as region:
        with raises(PermissionError, errno.EACCES, "read-only"):
            region.write(b"1")
        with raises(krdma.Error, errno.ERANGE, "outside of the region"):
            region.read(9)


def test_options_of_connect() -> None:
    with tempfile.NamedTemporaryFile("r") as log, environment(KRDMA_FAKE_LOG=log.name):
        mover.connect("10.0.0.2:99", timeout=1.5, private=True, messages=True, resume=7, keepalive=3, policy=1,
                      paths=["10.0.0.3", "10.0.0.4"]).close()
        assert log.read() == ("connect 10.0.0.2 port 99 scope 0 timeout 1500 resume 7 private messages"
                              " paths 2 policy 1 keepalive 3\ndestroy kind 1\n")
        with mover.connect("h", paths="auto"):
            assert "paths 2 policy 0" in log.read()
    for timeout in (0, -1, float("nan")):
        with raises(ValueError):
            mover.connect("h", timeout=timeout)
    assert session.peer == "10.0.0.2:7471"
    assert krdma.resolve("h2") == ["fd00::2", "10.0.0.2"]


def test_connects_in_asyncio() -> None:
    async def main() -> None:
        sessions = await asyncio.gather(*(mover.connect_async("h", private=True) for _ in range(3)))
        assert len({one.id for one in sessions}) == 3 and sessions[0].peer == "10.0.0.2:7471"
        with environment(KRDMA_FAKE_HANG="1"), tempfile.NamedTemporaryFile("r") as log:
            with raises(asyncio.TimeoutError), environment(KRDMA_FAKE_LOG=log.name):
                await asyncio.wait_for(mover.connect_async("h", keepalive=2), 0.01)
            assert "keepalive 2\ndestroy kind 1\n" in log.read()
        with raises(krdma.Error, errno.EINVAL):
            await mover.connect_async("[::1")
        with environment(KRDMA_FAKE_STALE="2"), tempfile.NamedTemporaryFile("r") as log:
            with environment(KRDMA_FAKE_LOG=log.name):
                (await mover.connect_async("h")).close()
            assert log.read().count("connect 10.0.0.2") == 3

    asyncio.run(main())


def test_bytes_move_in_place() -> None:
    with peer_export("e", bytes(64)) as path, session.open("e") as region:
        assert len(region) == 64 and region.rights == Right.READ | Right.WRITE | Right.ATOMIC
        assert region.write(b"abc", 1) == 3
        assert region.write(memoryview(b"0123456789")[4:6], 4) == 2
        assert region.write(array.array("I", [0x64636261]), 8) == 4
        assert content(path)[:12] == b"\0abc45\0\0abcd"
        assert region.read(4, 8) == b"abcd"
        numbers = array.array("I", [0, 0])
        assert region.read_into(memoryview(numbers)[1:], 8) == 4
        assert numbers[1] == 0x64636261
        mapped = mmap.mmap(-1, 4096)
        region.read_into(memoryview(mapped)[100:104], 1)
        assert mapped[100:104] == b"abc4"
        with raises(BufferError):
            region.read_into(b"1234", 0)
        with raises(BufferError):
            region.write(memoryview(b"0123456789")[::2])
        with raises(TypeError):
            region.write("text")


def test_registered_memory() -> None:
    with peer_export("e", bytes(range(64))) as path, session.open("e") as region:
        with mover.buffer(4096) as buffer:
            assert len(buffer) == 4096
            region.read_into(buffer[10:20], 30)
            assert bytes(buffer.memory[10:20]) == bytes(range(30, 40)) == bytes(buffer[10:20].memory)
            buffer.memory[:3] = b"xyz"
            region.write(buffer[:3], 5)
            assert content(path)[5:8] == b"xyz"
            with raises(ValueError):
                buffer[::2]
            with raises(TypeError):
                buffer[1]  # type: ignore[index]
            late = krdma.Write(region, buffer[:3])
        with raises(ValueError, text="closed"):
            mover.submit(late)
        memory = bytearray(16)
        fixed = mover.buffer(memory)
        with raises(BufferError):
            memory.extend(b"more")
        with raises(krdma.Error, errno.ERANGE):
            op = krdma.Read(region, fixed)
            op._op.length = 17
            mover.do(op)
        fixed.close()
        with raises(BufferError):
            mover.buffer(b"read-only")
        with mover.buffer(b"read-only", writable=False) as constant:
            region.write(constant)
            with raises(PermissionError, errno.EACCES):
                region.read_into(constant)


def test_vectors_and_ranges_are_filled_in() -> None:
    with peer_export("e", bytes(64)), session.open("e") as region, mover.buffer(4096) as buffer:
        parts = [bytearray(3), bytearray(5)]
        op = krdma.Read(region, parts, [(8, 4), (16, 4)])
        assert op._op.flags == lib.KRDMA_OPF_VECTOR | lib.KRDMA_OPF_RANGES
        assert (op._op.naddr, op._op.nranges, op._op.length) == (2, 2, 8)
        op = krdma.Read(region, [buffer[1:2], buffer[7:9]], 0, after=True, timeout=2.5)
        op._begin(1)
        assert op._op.flags == lib.KRDMA_OPF_VECTOR | lib.KRDMA_OPF_BUFFER | lib.KRDMA_OPF_AFTER
        assert op._op.buffer == buffer.id and op._op.timeout_ns == 2500000000
        vector = ffi.cast("struct krdma_vec *", op._op.addr)
        assert [(vector[i].addr, vector[i].length) for i in range(2)] == [(1, 1), (7, 2)]
        assert krdma.Digest(region, [(0, 4), (8, 8)])._op.length == 12
        flush = krdma.Flush(region, [(0, 4), (8, 8)])
        assert (flush._op.length, flush._op.nranges, flush._op.addr) == (12, 2, 0)
        assert krdma.Write(region, b"1", placed=True)._op.flags == lib.KRDMA_OPF_PLACED
        for bad in ([buffer, parts[0]], []):
            with raises(ValueError):
                krdma.Read(region, bad)
        with raises(ValueError, text="ranges have 9 bytes"):
            krdma.Read(region, parts, [(0, 9)])


def test_numbers() -> None:
    with peer_export("e", b"123456789" + bytes(7)), session.open("e") as region:
        assert region.digest(0, 9) == 0xe3069283
        region.write((41).to_bytes(8, sys.byteorder), 8)
        assert region.fetch_add(8, 1) == 41 and region.fetch_add(8, -2) == 42
        assert region.compare_swap(8, 40, 7) == 40 and region.compare_swap(8, 40, 8) == 7
        with raises(krdma.Error):
            region.flush(0, 9)


def test_many_in_one_call() -> None:
    with peer_export("e", bytes(range(64))), session.open("e") as region:
        parts = [bytearray(4) for _ in range(16)]
        mover.submit(*(krdma.Read(region, part, 4 * i) for i, part in enumerate(parts)))
        assert b"".join(parts) == bytes(range(64))
        ops = [krdma.Read(region, part, 0) for part in parts]
        with environment(KRDMA_FAKE_FAIL_OP=f"{next_operation(region) + 2}:{errno.EIO}"):
            with raises(krdma.Error, errno.EIO, "failed on purpose"):
                mover.submit(*ops)
        assert ops[0].result() == 4 and ops[15].result() == 4
        with raises(krdma.Error, errno.EIO):
            ops[2].result()
        with raises(ValueError):
            krdma.Read(region, parts[0]).result()
        with raises(krdma.Error, errno.EINVAL):
            mover.submit()


def next_operation(region: krdma.Region) -> int:
    """The number of the next operation, as the fake counts them: tried until the one that is to fail does."""
    number = 1
    while True:
        with environment(KRDMA_FAKE_FAIL_OP=f"{number}:{errno.EBADMSG}"):
            try:
                region.read(1)
            except krdma.Error:
                return number + 1
        number += 2


def test_start_and_reap() -> None:
    with peer_export("e", bytes(range(64))), session.open("e") as region:
        parts = [bytearray(4) for _ in range(8)]
        ops = [krdma.Read(region, part, 4 * i) for i, part in enumerate(parts)]
        assert mover.reap(None) == []
        with environment(KRDMA_FAKE_DELAY_MS="20", KRDMA_FAKE_OPS_MAX="6"):
            assert mover.start(*ops) == 6
            assert mover.start(ops[6]) == 0
            with raises(ValueError, text="under way"):
                mover.start(ops[0])
        assert not ops[7].done
        ended: List[krdma.Operation[int]] = []
        while len(ended) < 6:
            assert select.select([mover], [], [], 10)[0]
            ended += mover.reap()
        assert ended == ops[:6] and all(op.result() == 4 for op in ended)
        assert b"".join(parts[:6]) == bytes(range(24))
        assert mover.start(ops[6], ops[7]) == 2
        while not ops[7].done:
            mover.reap(10)
        with raises(krdma.Error, errno.ERANGE):
            mover.start(ops[0], krdma.Read(region, bytearray(65)))
        assert mover.start(ops[0]) == 1 and mover.reap(10) == [ops[0]]


def test_cancel() -> None:
    with peer_export("e", bytes(64)), session.open("e") as region, environment(KRDMA_FAKE_HANG="1"):
        one, other = krdma.Read(region, bytearray(4)), krdma.Read(region, bytearray(4))
        assert mover.start(one, other) == 2
        assert mover.reap(0.01) == []
        assert mover.cancel(one) == 1 and mover.reap(None) == [one]
        with raises(krdma.Error, errno.ECANCELED):
            one.result()
        assert not other.done and mover.cancel() == 1 and mover.reap(None) == [other]


def test_memory_of_operations_is_held() -> None:
    with peer_export("e", bytes(64)), session.open("e") as region, environment(KRDMA_FAKE_HANG="1"):
        memory = bytearray(8)
        mover.start(krdma.Read(region, memory))
        gc.collect()
        with raises(BufferError):
            memory.extend(b"more")
        mover.cancel()
        mover.reap(None)
        gc.collect()
        memory.extend(b"more")


def test_asyncio() -> None:
    async def one(region: krdma.Region, i: int) -> bytearray:
        into = bytearray(4)
        await mover.run(krdma.Read(region, into, 4 * i))
        return into

    async def all_of_them(region: krdma.Region) -> None:
        parts = await asyncio.gather(*(one(region, i) for i in range(16)))
        assert b"".join(parts) == bytes(range(64))
        # More than there is room for.
        results = await mover.run(*(krdma.Digest(region, 0, 9) for _ in range(20)))
        assert len(results) == 20 and len(set(results)) == 1
        with raises(krdma.Error, errno.ERANGE):
            await mover.run(krdma.Digest(region, 0, 9), krdma.Read(region, bytearray(65)))

    with peer_export("e", bytes(range(64))), session.open("e") as region:
        with environment(KRDMA_FAKE_DELAY_MS="1", KRDMA_FAKE_OPS_MAX="6"):
            asyncio.run(all_of_them(region))
        # Another loop, when the first one has gone.
        asyncio.run(mover.run(krdma.Read(region, bytearray(1))))


def test_a_cancelled_task_waits_for_its_memory() -> None:
    async def main(region: krdma.Region) -> None:
        op = krdma.Read(region, bytearray(4))
        task = asyncio.ensure_future(mover.run(op))
        await asyncio.sleep(0)
        assert not op.done
        task.cancel()
        with raises(asyncio.CancelledError):
            await task
        assert op.done
        with raises(krdma.Error, errno.ECANCELED):
            op.result()

        # One that waits for room.
        with environment(KRDMA_FAKE_OPS_MAX="2"):
            ops = [krdma.Read(region, bytearray(4)) for _ in range(4)]
            task = asyncio.ensure_future(mover.run(*ops))
            await asyncio.sleep(0)
            task.cancel()
            with raises(asyncio.CancelledError):
                await task
            assert [op.done for op in ops] == [True, True, False, False]

    with peer_export("e", bytes(64)), session.open("e") as region, environment(KRDMA_FAKE_HANG="1"):
        asyncio.run(main(region))


def test_an_operation_is_run_once_at_a_time() -> None:
    async def main(region: krdma.Region) -> None:
        op = krdma.Read(region, bytearray(4))
        first = asyncio.ensure_future(mover.run(op))
        await asyncio.sleep(0)
        with raises(ValueError, text="under way"):
            await mover.run(krdma.Read(region, bytearray(4)), op)
        mover.cancel()
        with raises(krdma.Error, errno.ECANCELED):
            await first
        with raises(ValueError, text="under way"):
            await mover.run(op, op)

    with peer_export("e", bytes(64)), session.open("e") as region, environment(KRDMA_FAKE_HANG="1"):
        asyncio.run(main(region))


class Interrupt(Exception):
    """Of a signal's handler."""


def interrupt(_number: int, _frame: Optional[FrameType]) -> None:
    raise Interrupt


def test_a_signal_between_call_and_result_loses_no_operation() -> None:
    async def run(op: krdma.Read) -> None:
        with environment(KRDMA_FAKE_SIGNAL="submit"):
            task = asyncio.ensure_future(mover.run(op))
            await asyncio.sleep(0)
        with raises(Interrupt):
            await task
        assert op.done

    before = signal.signal(signal.SIGUSR1, interrupt)
    with peer_export("e", bytes(64)), session.open("e") as region:
        memory = bytearray(4)
        with environment(KRDMA_FAKE_HANG="1"):
            with environment(KRDMA_FAKE_SIGNAL="submit"), raises(Interrupt):
                mover.start(krdma.Read(region, memory))
            gc.collect()
            with raises(BufferError):
                memory.extend(b"more")
            assert mover.cancel() == 1
            assert [op.done for op in mover.reap(None)] == [True]
            op = krdma.Read(region, memory)
            assert mover.start(op) == 1 and mover.cancel(op) == 1
            with environment(KRDMA_FAKE_SIGNAL="reap"), raises(Interrupt):
                mover.reap(None)
            assert op.done and mover.reap(None) == [op] and mover.reap(None) == []
            asyncio.run(run(op))
    signal.signal(signal.SIGUSR1, before)


def test_threads_that_wait_for_the_same_operation() -> None:
    with peer_export("e", bytes(64)), session.open("e") as region, environment(KRDMA_FAKE_HANG="1"):
        found: List[krdma.Operation[int]] = []
        threads = [threading.Thread(target=lambda: found.extend(mover.reap(None)), daemon=True) for _ in range(2)]
        op = krdma.Read(region, bytearray(4))
        mover.start(op)
        for thread in threads:
            thread.start()
        mover.cancel()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads) and found == [op]


def test_exports() -> None:
    with mover.export("mine", 8192, Right.READ) as export:
        assert len(export.memory or b"") == 8192
        assert [e for e in session.exports() if e["name"] == "mine"][0]["rights"] == Right.READ
        with raises(FileExistsError, errno.EEXIST):
            mover.export("mine", 4096)
    with raises(FileNotFoundError):
        session.open("mine")
    memory = mmap.mmap(-1, 4096)
    memory[:3] = b"abc"
    with mover.export("mapped", memory), session.open("mapped") as region:
        assert region.read(3) == b"abc"
    with mover.export("mapped", 4096), raises(FileExistsError, errno.EEXIST):
        mover.export("mapped", memory)
    gc.collect()
    # Held for the peers; memory whose export has failed is not.
    with raises(BufferError):
        memory.close()
    other = mmap.mmap(-1, 4096)
    with mover.export("mapped", 4096), raises(FileExistsError, errno.EEXIST):
        mover.export("mapped", other)
    gc.collect()
    other.close()
    with raises(krdma.Error, errno.EINVAL, "not aligned"):
        mover.export("odd", memoryview(memory)[1:])
    with open(__file__, "rb") as file, mover.export("file", file, Right.READ, length=4096) as export:
        assert export.memory is None
    with raises(PermissionError, errno.EACCES, "not for messages"):
        with mover.export("silent", 4096) as export:
            export.messages()


def test_messages() -> None:
    talk = mover.connect("h", messages=True)
    with mover.export("queue", 4096, Right.READ | Right.WRITE | Right.MESSAGE) as export:
        with export.messages() as queue, talk.open("queue") as region:
            with raises(TimeoutError):
                queue.receive(0.01)
            region.send(b"one", 2 ** 64 - 1)
            region.write(b"abc", message=5)
            message = queue.receive(10)
            assert message and (message.data, message.value, message.written) == (b"one", 2 ** 64 - 1, False)
            assert (message.peer, message.session, message.uid) == ("10.0.0.1", 3, os.getuid())
            message = queue.receive(10)
            assert message and (message.data, message.value, message.written) == (b"", 5, True)

            async def three() -> List[int]:
                found: List[int] = []
                loop = asyncio.get_running_loop()
                for i in range(3):
                    loop.call_later(0.01 * i, region.send, b"m", i)
                async for each in queue:
                    found.append(each.value)
                    if len(found) == 3:
                        export.close()
                return found

            async def closed() -> None:
                one = export.messages()
                tasks = [asyncio.ensure_future(anext(aiter(one))) for _ in range(2)]
                await asyncio.sleep(0)
                with raises(RuntimeError, text="another task"):
                    await tasks[1]
                one.close()
                # The number of the file is another's now.
                reader, writer = os.pipe()
                loop = asyncio.get_running_loop()
                told = asyncio.Event()
                loop.add_reader(reader, told.set)
                with raises(ValueError, text="closed"):
                    await tasks[0]
                os.write(writer, b"1")
                assert await asyncio.wait_for(told.wait(), 10)
                loop.remove_reader(reader)
                os.close(reader)
                os.close(writer)

            asyncio.run(closed())
            assert asyncio.run(three()) == [0, 1, 2]
            assert list(queue) == [] and queue.receive() is None
        with raises(ValueError):
            queue.fileno()


def test_lists_and_numbers_of_the_module() -> None:
    query = mover.query()
    assert query["version"] == "fake" and query["submit_max"] == 1024
    assert mover.list("devices")[0]["name"] == "rxe0"
    assert session.info()["peer"] == "[fd00::2]:7471" and session.info()["serial"] == 3
    assert len(mover.list("transfers")) == 150
    assert mover.list("addresses", session)[0] == {"address": "10.0.0.3:7471"}
    assert mover.list("latencies")[0]["counts"][2:4] == [50, 49]
    assert mover.list("grants")[0]["read_bytes"] == 5000000
    assert 0 < session.ping(8) < 1
    assert isinstance(krdma.counters(), dict)
    with tempfile.NamedTemporaryFile("r") as log, environment(KRDMA_FAKE_LOG=log.name):
        mover.listen("0.0.0.0:99", ["10.0.0.0/8", "192.168.0.1"])
        mover.unlisten("0.0.0.0:99", close=True)
        assert log.read() == "listen 0.0.0.0 port 99\nallow 10.0.0.0/8\nallow 192.168.0.1/32\nunlisten port 99 close\n"
    with raises(krdma.Error, errno.EINVAL):
        mover.listen("0.0.0.0", ["ten"])


def test_what_is_closed() -> None:
    with peer_export("e", bytes(64)):
        region = session.open("e")
        region.close()
        region.close()
        with raises(ValueError, text="the Region is closed"):
            region.read(1)
        with tempfile.NamedTemporaryFile("r") as log, environment(KRDMA_FAKE_LOG=log.name):
            region = session.open("e")
            del region
            gc.collect()
            assert log.read().endswith("destroy kind 2\n")


def test_closing_waits_for_operations() -> None:
    """The last one: the fake has one device."""
    global mover, session
    memory = mmap.mmap(-1, 4096)
    mover.export("mapped", memory)
    gone = weakref.ref(mover)
    with peer_export("e", bytes(64)), environment(KRDMA_FAKE_HANG="1"):
        region = session.open("e")
        op = krdma.Read(region, bytearray(4))
        mover.start(op)

        async def connects() -> None:
            connect = asyncio.ensure_future(mover.connect_async("h"))
            while not mover._connecting:
                await asyncio.sleep(0)
            mover.close()
            with raises(ValueError, text="closed"):
                await connect

        asyncio.run(connects())
        assert op.done and mover.closed
    mover.close()
    region.close()
    with raises(ValueError, text="closed"):
        mover.fileno()
    with raises(ValueError, text="closed"):
        region.read(1)
    with raises(ValueError, text="closed"):
        mover.connect("h")
    # Peers may use its memory for some seconds more.
    del mover, session, region, op
    gc.collect()
    assert not gone()
    with raises(BufferError):
        memory.close()


def main() -> int:
    global mover, session
    # What waits for ever has failed.
    signal.alarm(300)
    os.environ["KRDMA_FAKE_DIR"] = directory
    mover = krdma.Mover()
    session = mover.connect("h")
    tests = [(name, function) for name, function in globals().items() if name.startswith("test_")]
    failed = 0
    for number, (name, function) in enumerate(tests, 1):
        try:
            function()
            print(f"ok {number} - python: {name[5:].replace('_', ' ')}")
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - python: {name[5:].replace('_', ' ')}")
            print("# " + traceback.format_exc().replace("\n", "\n# "))
    print(f"1..{len(tests)}", flush=True)
    shutil.rmtree(directory)
    return 1 if failed else 0


sys.exit(main())
