# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Operations: what is to be moved, and what came of it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Generic, List, Optional, Sequence, Tuple, TypeVar, Union

from ._base import CData, Error, duration, ffi, lib

if TYPE_CHECKING:
    from .objects import Buffer, Piece, Region

#: Local memory: an object with the buffer protocol, or registered memory; or several of one kind.
Memory = Union["Buffer", "Piece", Any]
#: Where in the region: an offset, or ranges of offset and length.
Where = Union[int, Sequence[Tuple[int, int]]]

T_co = TypeVar("T_co", covariant=True)


class Operation(Generic[T_co]):
    """An operation. It may be submitted again when it has ended.

    timeout: seconds that it may last; None for the default, 30 s
    after: it starts when all earlier operations of this Mover on this region have ended
    """

    def __init__(self, region: "Region", *, timeout: Optional[float] = None, after: bool = False) -> None:
        self.region = region
        #: bytes moved without a gap from the start, also if the operation has failed
        self.moved = 0
        self._op: CData = ffi.new("struct krdma_op *")
        # What the kernel uses until the operation has ended.
        self._keep: List[Any] = []
        self._buffer: Optional["Buffer"] = None
        self._timeout_ns = duration(timeout, 1e-9)
        self._after = after
        self._under_way = False
        self._done = False
        self._error: Optional[Error] = None
        self._ended: Optional[Callable[[], None]] = None

    @property
    def done(self) -> bool:
        """The operation has ended, and its memory is the caller's again."""
        return self._done

    def result(self) -> T_co:
        """What the operation gives, when it has ended; raises its error if it has failed."""
        if not self._done:
            raise ValueError("the operation has not ended")
        if self._error:
            raise self._error
        return self._value()

    def _value(self) -> T_co:
        raise NotImplementedError

    # ---- for Mover ----

    def _begin(self, user_data: int) -> None:
        if self._under_way:
            raise ValueError("the operation is under way")
        self._op.region = self.region.id
        if self._buffer:
            self._op.buffer = self._buffer.id
        self._op.user_data = user_data
        self._op.timeout_ns = self._timeout_ns
        if self._after:
            self._op.flags |= lib.KRDMA_OPF_AFTER
        self._under_way = True
        self._done = False
        self._error = None

    def _withdraw(self) -> None:
        self._under_way = False

    def _end(self, moved: int, error: Optional[Error]) -> None:
        self.moved = moved
        self._error = error
        self._under_way = False
        self._done = True
        if self._ended:
            self._ended()

    # ---- for the kinds of operations ----

    def _set_memory(self, memory: Memory, writable: bool) -> int:
        """Return: its length."""
        pieces = memory if isinstance(memory, (list, tuple)) else [memory]
        found = [_piece(piece, writable) for piece in pieces]
        if len({id(buffer) for buffer, _, _, _ in found}) != 1:
            raise ValueError("pieces are in one registered buffer, or none of them is in any; one at least")
        self._keep += [keep for _, _, _, keep in found]
        self._buffer = found[0][0]
        if self._buffer:
            lib.krdma_op_buffer(self._op, self._buffer.id, 0)
        if len(found) > 1:
            vector = ffi.new("struct krdma_vec[]", [(at, length) for _, at, length, _ in found])
            self._keep.append(vector)
            lib.krdma_op_vector(self._op, vector, len(found))
        else:
            self._op.addr, self._op.length = found[0][1:3]
        return int(self._op.length)

    def _set_where(self, where: Where) -> int:
        """Return: the length of all ranges, 0 for an offset."""
        if isinstance(where, int):
            self._op.offset = where
            return 0
        ranges = ffi.new("struct krdma_vec[]", list(where))
        self._keep.append(ranges)
        lib.krdma_op_ranges(self._op, ranges, len(ranges))
        return sum(length for _, length in where)

    def _set_number(self) -> CData:
        number = ffi.new("uint64_t *")
        self._keep.append(number)
        return number


def _piece(memory: Memory, writable: bool) -> Tuple[Optional["Buffer"], int, int, Any]:
    """Return: the registered buffer or None, the address or the offset in the buffer, length, what to keep."""
    in_buffer = getattr(memory, "_in_buffer", None)
    if in_buffer:
        buffer, offset, length = in_buffer()
        return buffer, offset, length, buffer
    data = ffi.from_buffer("char[]", memory, require_writable=writable)
    return None, int(ffi.cast("uintptr_t", data)), len(data), data


class _Move(Operation[int]):
    def __init__(self, region: "Region", memory: Memory, where: Where, verify: bool, timeout: Optional[float],
                 after: bool) -> None:
        super().__init__(region, timeout=timeout, after=after)
        self._op.opcode = self._opcode
        length = self._set_memory(memory, self._opcode == lib.KRDMA_OP_READ)
        ranges = self._set_where(where)
        if ranges not in (0, length):
            raise ValueError(f"the ranges have {ranges} bytes, local memory has {length}")
        if verify:
            lib.krdma_op_verify(self._op)

    _opcode = 0

    def _value(self) -> int:
        return self.moved


class Read(_Move):
    """From a region into local memory. The result is the number of bytes.

    into: memory that can be written to; a list for several pieces
    where: offset in the region, or a list of (offset, length)
    verify: compare the bytes at both ends
    """

    _opcode = lib.KRDMA_OP_READ

    def __init__(self, region: "Region", into: Memory, where: Where = 0, *, verify: bool = False,
                 timeout: Optional[float] = None, after: bool = False) -> None:
        super().__init__(region, into, where, verify, timeout, after)


class Write(_Move):
    """From local memory into a region. The result is the number of bytes.

    data: memory; a list for several pieces
    where: offset in the region, or a list of (offset, length)
    verify: compare the bytes at both ends
    placed: end only when every reader of the peer's memory sees the bytes
    message: send a message with this number when the bytes are there
    """

    _opcode = lib.KRDMA_OP_WRITE

    def __init__(self, region: "Region", data: Memory, where: Where = 0, *, verify: bool = False,
                 placed: bool = False, message: Optional[int] = None, timeout: Optional[float] = None,
                 after: bool = False) -> None:
        super().__init__(region, data, where, verify, timeout, after)
        if placed:
            lib.krdma_op_placed(self._op)
        if message is not None:
            lib.krdma_op_message(self._op, message)


class Send(Operation[None]):
    """A message of up to 4096 bytes and a number, to the holder of the export."""

    def __init__(self, region: "Region", data: Any = b"", value: int = 0, *, timeout: Optional[float] = None,
                 after: bool = False) -> None:
        super().__init__(region, timeout=timeout, after=after)
        self._op.opcode = lib.KRDMA_OP_SEND
        self._op.operand = value
        self._set_memory(data, False)

    def _value(self) -> None:
        return None


class _Number(Operation[int]):
    def _value(self) -> int:
        return int(self._number[0])

    def __init__(self, region: "Region", timeout: Optional[float], after: bool) -> None:
        super().__init__(region, timeout=timeout, after=after)
        self._number = self._set_number()


class FetchAdd(_Number):
    """Add to 8 bytes of a region, modulo 2^64. The result is the old value.

    offset: a multiple of 8
    """

    def __init__(self, region: "Region", offset: int, value: int, *, timeout: Optional[float] = None,
                 after: bool = False) -> None:
        super().__init__(region, timeout, after)
        lib.krdma_op_fetch_add(self._op, 0, offset, self._number, value & 0xffffffffffffffff)


class CompareSwap(_Number):
    """Store a value in 8 bytes of a region if they equal another. The result is the old value.

    offset: a multiple of 8
    """

    def __init__(self, region: "Region", offset: int, compare: int, value: int, *,
                 timeout: Optional[float] = None, after: bool = False) -> None:
        super().__init__(region, timeout, after)
        lib.krdma_op_cmp_swap(self._op, 0, offset, self._number, compare, value)


class Flush(Operation[int]):
    """Make durable what has been written to a range of a region whose memory is persistent.

    where: offset in the region; or a list of (offset, length), without length. The result is the number of bytes
    """

    def __init__(self, region: "Region", where: Where, length: int = 0, *, timeout: Optional[float] = None,
                 after: bool = False) -> None:
        super().__init__(region, timeout=timeout, after=after)
        lib.krdma_op_flush(self._op, 0, 0, length)
        ranges = self._set_where(where)
        if ranges:
            self._op.length = ranges

    def _value(self) -> int:
        return self.moved


class Digest(_Number):
    """The CRC32C of a range of a region, which the target computes.

    where: offset in the region; or a list of (offset, length), without length
    """

    def __init__(self, region: "Region", where: Where, length: int = 0, *, timeout: Optional[float] = None,
                 after: bool = False) -> None:
        super().__init__(region, timeout, after)
        lib.krdma_op_digest(self._op, 0, 0, length, self._number)
        ranges = self._set_where(where)
        if ranges:
            self._op.length = ranges
