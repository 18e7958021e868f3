# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Messages to an export."""
from __future__ import annotations

import asyncio
import collections
import dataclasses
import os
import select
from typing import TYPE_CHECKING, AsyncIterator, Deque, Iterator, Optional, Type

from ._base import CData, ffi, format_address, lib

if TYPE_CHECKING:
    from types import TracebackType

# Whole messages that one read(2) takes; the longest fits.
_ROOM = 65536


@dataclasses.dataclass(frozen=True)
class Message:
    """A message, as it was received."""

    #: the bytes, up to 4096
    data: bytes
    #: the number that came with them
    value: int
    #: the message follows a WRITE, whose bytes are in memory
    written: bool
    #: address of the sender's host
    peer: str
    #: user id of the sender, as its kernel asserts
    uid: int
    #: serial of the sender's session on this host
    session: int
    #: number of the sender's region in its session: messages of one region keep their order
    region: int


def _message(entry: CData) -> Message:
    return Message(
        data=bytes(ffi.buffer(lib.krdma_message_data(entry), entry.length)), value=entry.value,
        written=bool(entry.flags & lib.KRDMA_MESSAGE_WRITTEN), peer=format_address(entry.peer), uid=entry.uid,
        session=entry.session, region=entry.region)


class MessageQueue:
    """The messages to an export, in order. Export.messages() opens it.

    Iterate over it with for, or with async for; it ends when the export has ended and all is read. The
    iteration waits; one task at a time may wait. fileno() can be polled.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = ffi.new("uint64_t[]", _ROOM // 8)
        self._ready: Deque[Message] = collections.deque()
        self._over = False
        self._waiting: Optional["asyncio.Future[None]"] = None

    def fileno(self) -> int:
        """The file, for poll and select; ValueError if it is closed."""
        if self._fd < 0:
            raise ValueError("the MessageQueue is closed")
        return self._fd

    def close(self) -> None:
        """Close the file. Messages that are unread stay for the next one.

        A task that waits gets ValueError; close() is to be called in the thread of its event loop.
        """
        waiting, self._waiting = self._waiting, None
        if waiting:
            waiting.get_loop().remove_reader(self._fd)
            if not waiting.done():
                waiting.set_result(None)
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _fill(self) -> bool:
        """Take what is there. Return: something is, or the end."""
        if self._ready or self._over:
            return True
        try:
            got = os.readv(self.fileno(), [ffi.buffer(self._buffer)])
        except BlockingIOError:
            return False
        self._over = not got
        entry = lib.krdma_message_next(self._buffer, got, ffi.NULL)
        while entry:
            self._ready.append(_message(entry))
            entry = lib.krdma_message_next(self._buffer, got, entry)
        return True

    def receive(self, timeout: Optional[float] = None) -> Optional[Message]:
        """The next message.

        timeout: seconds to wait for it, None for any time; TimeoutError if there is none by then
        Return: None at the end of the queue.
        """
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        while not self._fill():
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise TimeoutError("no message has arrived in time")
        return self._ready.popleft() if self._ready else None

    def __iter__(self) -> Iterator[Message]:
        message = self.receive()
        while message:
            yield message
            message = self.receive()

    async def _readable(self) -> None:
        if self._waiting:
            raise RuntimeError("another task waits for a message of this queue")
        loop = asyncio.get_running_loop()
        fd = self.fileno()
        ready: "asyncio.Future[None]" = loop.create_future()

        def can_be_read() -> None:
            if not ready.done():
                ready.set_result(None)

        loop.add_reader(fd, can_be_read)
        self._waiting = ready
        try:
            await ready
        finally:
            # ORDER: close() has removed the reader; another file may have the number by now.
            if self._waiting is ready:
                self._waiting = None
                loop.remove_reader(fd)

    async def __aiter__(self) -> AsyncIterator[Message]:
        while True:
            while not self._fill():
                await self._readable()
            if not self._ready:
                return
            yield self._ready.popleft()

    def __enter__(self) -> "MessageQueue":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional["TracebackType"]) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
