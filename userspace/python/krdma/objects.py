# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""What a Mover has: sessions, regions, registered memory, and exports."""
from __future__ import annotations

import itertools
import mmap
import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Type, TypeVar, Union

from ._base import CData, Error, Right, as_dict, check, ffi, lib, milliseconds
from .message import MessageQueue
from .operation import CompareSwap, Digest, FetchAdd, Flush, Memory, Read, Send, Where, Write

if TYPE_CHECKING:
    from types import TracebackType

    from .mover import Mover

Self = TypeVar("Self", bound="Object")


class Object:
    """Something with an id in a Mover. It ends with close(), with its block of 'with', or with the Mover."""

    def __init__(self, mover: "Mover", number: int) -> None:
        self.mover = mover
        self._id = number

    @property
    def id(self) -> int:
        """The id in the Mover; ValueError if the object has ended."""
        if not self._id or self.mover.closed:
            raise ValueError(f"the {type(self).__name__} is closed")
        return self._id

    def close(self) -> None:
        """End the object. Operations under way keep what they use."""
        number, self._id = self._id, 0
        if number and not self.mover.closed:
            check(lib.krdma_destroy(self.mover.handle, number))

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional["TracebackType"]) -> None:
        self.close()

    def __del__(self) -> None:
        # A constructor that has failed leaves no id.
        if getattr(self, "_id", 0) and not self.mover.closed:
            lib.krdma_destroy(self.mover.handle, self._id)


class Piece:
    """A part of registered memory: what a slice of a Buffer is."""

    def __init__(self, buffer: "Buffer", offset: int, length: int) -> None:
        self.buffer = buffer
        self.offset = offset
        self.length = length

    def __len__(self) -> int:
        return self.length

    @property
    def memory(self) -> memoryview:
        """The bytes."""
        return self.buffer.memory[self.offset:self.offset + self.length]

    def _in_buffer(self) -> Tuple["Buffer", int, int]:
        return self.buffer, self.offset, self.length


class Buffer(Object):
    """Memory that is pinned once, for many operations. Mover.buffer() makes it.

    Operations take the Buffer, or a slice of it: region.write(buffer[4096:8192]).
    """

    def __init__(self, mover: "Mover", memory: Any, writable: bool) -> None:
        # Held as long as anything uses the Buffer: the memory can't be freed or resized meanwhile.
        self._data = ffi.from_buffer("char[]", memory, require_writable=writable)
        number = ffi.new("uint32_t *")
        check(lib.krdma_register_buffer(mover.handle, self._data, len(self._data),
                                        lib.KRDMA_BUFFER_WRITABLE if writable else 0, number))
        super().__init__(mover, number[0])
        #: the bytes
        self.memory = memoryview(memory).cast("B")

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, part: slice) -> Piece:
        if not isinstance(part, slice):
            raise TypeError("a part of a Buffer is a slice; the bytes are in Buffer.memory")
        start, stop, step = part.indices(len(self))
        if step != 1:
            raise ValueError("a slice of a Buffer has no step")
        return Piece(self, start, max(stop - start, 0))

    def _in_buffer(self) -> Tuple["Buffer", int, int]:
        return self, 0, len(self)


# Exported memory that is not the module's own, by number. Peers may use it some seconds longer than the export
# lives, and longer than the Mover: it never becomes free memory, where other objects would be.
_exported: Dict[int, CData] = {}
_numbers = itertools.count()


class Export(Object):
    """Memory of this host under a name, for peers. Mover.export() makes it."""

    def __init__(self, mover: "Mover", name: str, source: Any, rights: Right, offset: int,
                 length: Optional[int], max_segments: int) -> None:
        self.name = name
        self._number = ffi.new("uint32_t *")
        #: the bytes that peers read and write; None for a file
        self.memory: Optional[memoryview] = None
        if isinstance(source, int):
            self._export_new(mover, source, rights, max_segments)
        elif hasattr(source, "fileno"):
            fd = source.fileno()
            self._export_fd(mover, fd, offset, os.fstat(fd).st_size - offset if length is None else length, rights,
                            max_segments)
        else:
            self._export_memory(mover, source, rights, max_segments)
        super().__init__(mover, self._number[0])

    def _export_new(self, mover: "Mover", length: int, rights: Right, max_segments: int) -> None:
        fd = check(lib.krdma_memfd(self.name.encode(), length))
        try:
            self.memory = memoryview(mmap.mmap(fd, length))
            self._export_fd(mover, fd, 0, length, rights, max_segments)
        finally:
            os.close(fd)

    def _export_fd(self, mover: "Mover", fd: int, offset: int, length: int, rights: Right,
                   max_segments: int) -> None:
        check(lib.krdma_export_memfd(mover.handle, self.name.encode(), fd, offset, length, rights, max_segments,
                                     self._number))

    def _export_memory(self, mover: "Mover", memory: Any, rights: Right, max_segments: int) -> None:
        data = ffi.from_buffer("char[]", memory, require_writable=bool(rights & ~(Right.READ | Right.MESSAGE)))
        number = next(_numbers)
        # ORDER: held before peers may use it. An exception of a signal's handler may come at once afterwards.
        _exported[number] = data
        try:
            check(lib.krdma_export_memory(mover.handle, self.name.encode(), data, len(data), rights, max_segments,
                                          self._number))
        except Error:
            del _exported[number]
            raise
        self.memory = memoryview(memory).cast("B")

    def messages(self) -> MessageQueue:
        """The messages to an export with Right.MESSAGE."""
        return MessageQueue(check(lib.krdma_message_queue(self.mover.handle, self.id,
                                                          lib.KRDMA_MESSAGE_QUEUE_NONBLOCK)))


class Session(Object):
    """A connection with a peer. Mover.connect() makes it."""

    def __init__(self, mover: "Mover", number: int, peer: str) -> None:
        super().__init__(mover, number)
        #: address of the peer, with its port
        self.peer = peer

    def open(self, name: str, rights: Union[Right, int] = 0, *, held: bool = False, exclusive: bool = False,
             takeover: bool = False, timeout: Optional[float] = None) -> "Region":
        """Open an export of the peer.

        rights: all of them have to be available; 0 for every right of the export
        held: the target keeps all memory in place
        exclusive: nobody else can change the memory
        takeover: regions that are in the way are revoked
        """
        flags = ((lib.KRDMA_OPEN_HELD if held else 0) | (lib.KRDMA_OPEN_EXCLUSIVE if exclusive else 0) |
                 (lib.KRDMA_OPEN_TAKEOVER if takeover else 0))
        region = ffi.new("struct krdma_region *")
        check(lib.krdma_open_region_flags(self.mover.handle, self.id, name.encode(), rights, flags,
                                          milliseconds(timeout), region))
        return Region(self, name, region)

    def ping(self, length: int = 0, *, timeout: Optional[float] = None) -> float:
        """One round trip to the peer's module, with length bytes each way. Return: its seconds."""
        nanoseconds = ffi.new("uint64_t *")
        check(lib.krdma_ping(self.mover.handle, self.id, length, milliseconds(timeout), nanoseconds))
        return float(nanoseconds[0]) / 1e9

    def info(self) -> Dict[str, Any]:
        """What the kernel says of the session, as in struct krdma_session_info."""
        info = ffi.new("struct krdma_session_info *")
        check(lib.krdma_session(self.mover.handle, self.id, info))
        return as_dict(info[0])

    def exports(self) -> List[Dict[str, Any]]:
        """What the peer publishes: name, length, rights."""
        return self.mover.list("peer_exports", self)


class Region(Object):
    """An export of a peer, opened. Session.open() makes it.

    Each call waits until its operation has ended, and takes the options of the operation's class: Read,
    Write, Send, FetchAdd, CompareSwap, Digest, Flush.
    """

    def __init__(self, session: Session, name: str, region: CData) -> None:
        super().__init__(session.mover, region.id)
        self.session = session
        self.name = name
        #: bytes
        self.length: int = region.length
        #: what is granted
        self.rights = Right(region.rights)
        #: bytes that one key of the peer covers
        self.segment_size: int = region.segment_size

    def __len__(self) -> int:
        return self.length

    def read(self, length: int, offset: int = 0, **options: Any) -> bytearray:
        """Read bytes into new memory."""
        into = bytearray(length)
        self.read_into(into, offset, **options)
        return into

    def read_into(self, into: Memory, where: Where = 0, **options: Any) -> int:
        """Read into memory that is there. Return: the number of bytes."""
        return self.mover.do(Read(self, into, where, **options))

    def write(self, data: Memory, where: Where = 0, **options: Any) -> int:
        """Write memory into the region. Return: the number of bytes."""
        return self.mover.do(Write(self, data, where, **options))

    def send(self, data: Any = b"", value: int = 0, **options: Any) -> None:
        """Send a message to the holder of the export."""
        self.mover.do(Send(self, data, value, **options))

    def fetch_add(self, offset: int, value: int, **options: Any) -> int:
        """Add to 8 bytes. Return: the old value."""
        return self.mover.do(FetchAdd(self, offset, value, **options))

    def compare_swap(self, offset: int, compare: int, value: int, **options: Any) -> int:
        """Store a value in 8 bytes if they equal another. Return: the old value."""
        return self.mover.do(CompareSwap(self, offset, compare, value, **options))

    def digest(self, where: Where, length: int = 0, **options: Any) -> int:
        """The CRC32C of a range, which the peer computes."""
        return self.mover.do(Digest(self, where, length, **options))

    def flush(self, where: Where, length: int = 0, **options: Any) -> int:
        """Make durable what has been written to a range of persistent memory. Return: its bytes."""
        return self.mover.do(Flush(self, where, length, **options))
