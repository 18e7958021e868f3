# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Errors, rights, and the conversion of what C has."""
from __future__ import annotations

import enum
import math
from typing import Any, Dict, List, Optional, Type

from ._lib import ffi as ffi, lib as lib  # type: ignore[import]

# What has a pointer to a struct of C.
CData = Any


class Error(OSError):
    """A call or an operation has failed.

    errno is the errno, strerror the module's sentence, which names the object and the cause.
    """


# Error and Python's own class for an errno, in one: made when an error needs it.
_classes: Dict[Type[OSError], Type[Error]] = {OSError: Error}


def error(number: int, text: str) -> Error:
    """The exception for a positive errno."""
    own = type(OSError(number, text))
    if own not in _classes:
        _classes[own] = type(own.__name__, (Error, own), {"__module__": "krdma", "__doc__": own.__doc__})
    return _classes[own](number, text)


def last_error() -> Error:
    """The exception for this thread's last failure in the library."""
    return error(lib.krdma_errno(), text_of(lib.krdma_error()))


def check(result: int) -> int:
    """The result of a function of the library, if it is no errno."""
    if result < 0:
        raise error(-result, text_of(lib.krdma_error()))
    return result


class Right(enum.IntFlag):
    """What peers may do with an export, and this host with a region."""

    READ = lib.KRDMA_RIGHT_READ
    WRITE = lib.KRDMA_RIGHT_WRITE
    ATOMIC = lib.KRDMA_RIGHT_ATOMIC
    MESSAGE = lib.KRDMA_RIGHT_MESSAGE
    #: Only of a region: operations are atomic against the target's processors as well.
    ATOMIC_CPU = lib.KRDMA_RIGHT_ATOMIC_CPU
    #: Only of a region: its memory is persistent, and flush() makes changes durable.
    DURABLE = lib.KRDMA_RIGHT_DURABLE


def text_of(chars: CData) -> str:
    return str(ffi.string(chars).decode("utf-8", "replace"))


def duration(seconds: Optional[float], unit: float) -> int:
    """Seconds in units, rounded up. None is 0, which means the default of the call."""
    if seconds is None:
        return 0
    if not seconds > 0:
        raise ValueError("a timeout is more than 0 seconds")
    return math.ceil(seconds / unit)


def milliseconds(timeout: Optional[float]) -> int:
    return duration(timeout, 1e-3)


def format_address(address: CData) -> str:
    text = ffi.new("char[]", lib.KRDMA_ADDR_TEXT)
    return text_of(lib.krdma_format_addr(ffi.addressof(address), text))


def parse_address(text: str) -> CData:
    """The first address of a host."""
    address = ffi.new("struct krdma_sockaddr *")
    check(lib.krdma_resolve(text.encode(), address, 1))
    return address


def resolve(host: str) -> List[str]:
    """The addresses of a host, in the order to try them. Needs neither a Mover nor the module."""
    addresses = ffi.new("struct krdma_sockaddr[16]")
    return [format_address(addresses[i]) for i in range(check(lib.krdma_resolve(host.encode(), addresses, 16)))]


def as_dict(struct: CData) -> Dict[str, Any]:
    """The members of a struct: numbers, text, addresses, lists, and structs likewise."""
    return {name: _member(getattr(struct, name), field.type)
            for name, field in ffi.typeof(struct).fields if not name.startswith("reserved")}


def _member(value: CData, kind: CData) -> Any:
    if kind.kind == "primitive":
        return value
    if kind.kind == "struct":
        return format_address(value) if kind.cname == "struct krdma_sockaddr" else as_dict(value)
    if kind.item.cname == "char":
        return text_of(value)
    return bytes(ffi.buffer(value)) if kind.item.cname == "uint8_t" else list(value)


def counters() -> Dict[str, int]:
    """The module's counters, by name; none if it is not loaded."""
    array = ffi.new("struct krdma_counter **")
    count = check(lib.krdma_counters(array))
    try:
        return {text_of(array[0][i].name): array[0][i].value for i in range(count)}
    finally:
        lib.free(array[0])
