# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""The open device, and operations on their way."""
from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import itertools
import math
import mmap
import os
import select
import time
from typing import (TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Type, TypeVar,
                    Union)

from ._base import (CData, Error, Right, as_dict, check, error, ffi, format_address, last_error, lib,
                    milliseconds, parse_address, resolve)
from .objects import Buffer, Export, Session
from .operation import Operation

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

#: What Mover.list() lists, and the struct of each, which krdma_mover.h describes.
LISTS: Dict[str, Tuple[int, str]] = {
    "devices": (lib.KRDMA_LIST_DEVICES, "struct krdma_device_info *"),
    "listeners": (lib.KRDMA_LIST_LISTENERS, "struct krdma_listener_info *"),
    "sessions": (lib.KRDMA_LIST_SESSIONS, "struct krdma_session_info *"),
    "channels": (lib.KRDMA_LIST_CHANNELS, "struct krdma_channel_info *"),
    "exports": (lib.KRDMA_LIST_EXPORTS, "struct krdma_export_info *"),
    "regions": (lib.KRDMA_LIST_REGIONS, "struct krdma_region_info *"),
    "transfers": (lib.KRDMA_LIST_TRANSFERS, "struct krdma_transfer_info *"),
    "peer_exports": (lib.KRDMA_LIST_PEER_EXPORTS, "struct krdma_peer_export_info *"),
    "paths": (lib.KRDMA_LIST_PATHS, "struct krdma_path_info *"),
    "addresses": (lib.KRDMA_LIST_ADDRESSES, "struct krdma_sockaddr *"),
    "prefixes": (lib.KRDMA_LIST_PREFIXES, "struct krdma_prefix_info *"),
    "latencies": (lib.KRDMA_LIST_LATENCIES, "struct krdma_latency_info *"),
    "grants": (lib.KRDMA_LIST_GRANTS, "struct krdma_grant_info *"),
}

_ADDRESS = ffi.typeof("struct krdma_sockaddr")

# Seconds after which a thread that waits looks again: another one may have reaped the last operation.
_LOOK_AGAIN = 0.1


def _listed(entry: CData) -> Dict[str, Any]:
    """An address has no members of interest."""
    return {"address": format_address(entry)} if ffi.typeof(entry) == _ADDRESS else as_dict(entry)


class Mover:
    """One open file of /dev/krdma_mover: it has sessions, regions, buffers and exports, and ends them.

    Operations can be done in three ways: do() and submit() wait; start() and reap() do not, for programs that
    poll fileno(); run() is a coroutine of asyncio. While run() or connect_async() is in use, reap() and close()
    belong to its event loop's thread.
    """

    def __init__(self) -> None:
        handle = ffi.new("struct krdma **")
        check(lib.krdma_new(handle))
        # Freed when the last call that uses it has returned, in whatever thread.
        self._handle: Optional[CData] = ffi.gc(handle[0], lib.krdma_free)
        self._numbers = itertools.count(1)
        self._under_way: Dict[int, Operation[Any]] = {}
        self._reaped: List[Operation[Any]] = []
        self._connecting: Set["asyncio.Future[None]"] = set()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._runs = 0
        self._room: List["asyncio.Future[None]"] = []
        # Applies to start() and reap() alone.
        fcntl.fcntl(self, fcntl.F_SETFL, fcntl.fcntl(self, fcntl.F_GETFL) | os.O_NONBLOCK)

    # ---- the handle ----

    @property
    def closed(self) -> bool:
        """close() was called."""
        return self._handle is None

    @property
    def handle(self) -> CData:
        """The struct krdma of libkrdma; ValueError if the Mover is closed."""
        if self._handle is None:
            raise ValueError("the Mover is closed")
        return self._handle

    def fileno(self) -> int:
        """The file. It can be read when reap() has something, written to when start() has room."""
        return int(lib.krdma_fd(self.handle))

    def close(self) -> None:
        """End all that the Mover has. Operations under way are cancelled, and waited for.

        connect_async() raises ValueError. To be called in the thread of the event loop if there is one.
        """
        if self._handle is None:
            return
        for decided in self._connecting:
            if not decided.done() and not decided.get_loop().is_closed():
                decided.set_exception(ValueError("the Mover is closed"))
        while self._under_way:
            self.cancel()
            self.reap(None)
        self._stop_reading()
        self._handle = None

    def __enter__(self) -> "Mover":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional["TracebackType"]) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def query(self) -> Dict[str, Any]:
        """Features and limits of the module, as in struct krdma_ioc_query."""
        query = ffi.new("struct krdma_ioc_query *")
        query.size = ffi.sizeof("struct krdma_ioc_query")
        check(lib.krdma_query(self.handle, query))
        return as_dict(query[0])

    def list(self, kind: str, session: Optional[Session] = None) -> List[Dict[str, Any]]:
        """Objects of a kind: "sessions", "devices", "exports", ...: the keys of krdma.mover.LISTS.

        session: for "peer_exports" and "addresses", which wait for the peer
        """
        number, struct = LISTS[kind]
        iterator = ffi.new("struct krdma_iter **")
        check(lib.krdma_iter_new(self.handle, number, session.id if session else 0, iterator))
        found = []
        try:
            entry = lib.krdma_iter_next(iterator[0])
            while entry:
                found.append(_listed(ffi.cast(struct, entry)[0]))
                entry = lib.krdma_iter_next(iterator[0])
        finally:
            failed = lib.krdma_iter_free(iterator[0])
        check(failed)
        return found

    # ---- what it has ----

    def connect(self, host: str, *, timeout: Optional[float] = None, messages: bool = False,
                private: bool = False, fail_fast: bool = False, resume: int = 0, keepalive: int = 0,
                paths: Union[str, Sequence[str]] = (), policy: int = 0) -> Session:
        """Get a session with a host; its addresses are tried one after the other.

        host: name or address, with an optional port
        timeout: seconds for each address
        messages: the session can carry messages
        private: do not share the session with other programs
        fail_fast: the session ends when its connection is lost
        resume: seconds that the session goes on when its connection is lost; 0 for the module's default
        keepalive: seconds after which a dead path is noticed
        paths: further addresses of the host, or "auto" for those that it tells
        policy: which path an operation takes, KRDMA_POLICY_* of krdma_mover.h
        """
        with self._options(messages, private, fail_fast, resume, keepalive, paths, policy) as options:
            options.timeout_ms = milliseconds(timeout)
            number, peer = ffi.new("uint32_t *"), ffi.new("struct krdma_sockaddr *")
            check(lib.krdma_connect_host(self.handle, host.encode(), options, number, peer))
        return Session(self, number[0], format_address(peer[0]))

    async def connect_async(self, host: str, *, messages: bool = False, private: bool = False,
                            fail_fast: bool = False, resume: int = 0, keepalive: int = 0,
                            paths: Sequence[str] = (), policy: int = 0) -> Session:
        """connect() as a coroutine: the event loop goes on. To give up, cancel it: asyncio.wait_for().

        A Mover may have 64 of them under way.
        """
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(None, resolve, host)
        with self._options(messages, private, fail_fast, resume, keepalive, paths, policy) as options:
            while True:
                try:
                    return await self._connect_to(loop, addresses[0], options)
                except Error as failure:
                    # A session was shared whose peer was restarted meanwhile: the next one is new.
                    if failure.errno != errno.ESTALE:
                        del addresses[0]
                    if not addresses:
                        raise

    async def _connect_to(self, loop: asyncio.AbstractEventLoop, address: str, options: CData) -> Session:
        number, peer = ffi.new("uint32_t *"), parse_address(address)
        peer.port = peer.port or lib.KRDMA_DEFAULT_PORT
        event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)  # type: ignore[attr-defined]
        decided: "asyncio.Future[None]" = loop.create_future()
        self._connecting.add(decided)
        try:
            check(lib.krdma_connect_start(self.handle, peer, options, event, number))
            session = Session(self, number[0], format_address(peer[0]))
            try:
                loop.add_reader(event, lambda: None if decided.done() else decided.set_result(None))
                await decided
                check(lib.krdma_connected(self.handle, session.id))
            except BaseException:
                session.close()
                raise
            return session
        finally:
            self._connecting.discard(decided)
            loop.remove_reader(event)
            os.close(event)

    @contextlib.contextmanager
    def _options(self, messages: bool, private: bool, fail_fast: bool, resume: int, keepalive: int,
                 paths: Union[str, Sequence[str]], policy: int) -> Iterator[CData]:
        """As a struct of C, with the array that it points to."""
        options = ffi.new("struct krdma_connect_options *")
        options.flags = ((lib.KRDMA_CONNECT_MESSAGES if messages else 0) |
                         (lib.KRDMA_CONNECT_PRIVATE if private else 0) |
                         (lib.KRDMA_CONNECT_FAIL_FAST if fail_fast else 0))
        options.resume_s, options.keepalive_s, options.policy = resume, keepalive, policy
        if paths == "auto":
            options.npaths = lib.KRDMA_PATHS_AUTO
        else:
            array = ffi.new("struct krdma_path_addr[]", [(parse_address(path)[0],) for path in paths])
            options.npaths, options.paths = len(array), array
        yield options

    def buffer(self, memory: Any, *, writable: bool = True) -> Buffer:
        """Register memory for many operations.

        memory: an object with the buffer protocol, or the length of new memory
        writable: operations may read into it
        """
        return Buffer(self, mmap.mmap(-1, memory) if isinstance(memory, int) else memory, writable)

    def export(self, name: str, source: Any, rights: Right = Right.READ | Right.WRITE, *, offset: int = 0,
               length: Optional[int] = None, max_segments: int = 0) -> Export:
        """Publish memory under a name.

        source: the length of new memory; or an open file, which can be read only, or a memfd that is sealed
            against shrinking; or memory that begins at a page, such as an mmap, which is pinned at once
        offset, length: of a file
        max_segments: most segments that are registered for peers at a time; 0 for the default
        """
        return Export(self, name, source, rights, offset, length, max_segments)

    def listen(self, address: str, allow: Sequence[str] = (), *, replace: bool = False) -> None:
        """Accept peers at a local address. Needs CAP_NET_ADMIN.

        allow: prefixes of peers that may connect; none admits all
        replace: a listener that is there gets these prefixes
        """
        prefixes = ffi.new("struct krdma_prefix[]", len(allow))
        for i, text in enumerate(allow):
            check(lib.krdma_parse_prefix(text.encode(), ffi.addressof(prefixes, i)))
        function = lib.krdma_replace_listener if replace else lib.krdma_listen
        check(function(self.handle, parse_address(address), prefixes, len(allow)))

    def unlisten(self, address: str, *, close: bool = False) -> None:
        """Remove a listener and end its sessions; with close, only refuse new ones."""
        function = lib.krdma_close_listener if close else lib.krdma_unlisten
        check(function(self.handle, parse_address(address)))

    # ---- operations ----

    def do(self, operation: Operation[T]) -> T:
        """Do an operation, and wait for it. Return: its result."""
        self.submit(operation)
        return operation.result()

    def submit(self, *operations: Operation[Any]) -> None:
        """Do operations, and wait for all of them; raises the error of the first that has failed."""
        completions = ffi.new("struct krdma_completion[]", len(operations))
        with self._begun(operations) as ops:
            failed = check(lib.krdma_submit(self.handle, ops, completions, len(operations)))
        # The kernel's text is that of the first one that has failed.
        text = last_error() if failed else None
        for operation, completion in zip(operations, completions):
            status = completion.status
            operation._end(completion.result, (text or error(-status, os.strerror(-status))) if status else None)
            text = None if status else text
        for operation in operations:
            operation.result()

    def start(self, *operations: Operation[Any]) -> int:
        """Start operations, without waiting for them.

        Return: how many were started, from the first one on: 0 if there is no room before reap().
        """
        with self._begun(operations) as ops:
            counts: List[int] = []
            try:
                # ORDER: another thread may reap them before the call returns.
                self._under_way.update((operation._op.user_data, operation) for operation in operations)
                # In one go: an exception of a signal's handler comes before the call, or when its result is there.
                counts.extend(map(lib.krdma_submit_async, [self.handle], [ops], [len(operations)]))
                if counts[0] != -errno.EAGAIN:
                    check(counts[0])
            finally:
                count = max([0, *counts])
                for operation in operations[count:]:
                    self._under_way.pop(operation._op.user_data, None)
                    operation._withdraw()
        return count

    def reap(self, timeout: Optional[float] = 0) -> List[Operation[Any]]:
        """The operations of start() and run() that have ended; their result() tells how.

        timeout: seconds to wait for one, None for as long as it takes. There is no wait if none is under way.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        ended = self._reap_ready()
        left = until - time.monotonic()
        while not ended and self._under_way and left > 0:
            poll = select.poll()
            poll.register(self.fileno(), select.POLLIN)
            poll.poll(math.ceil(min(left, _LOOK_AGAIN) * 1000))
            ended = self._reap_ready()
            left = until - time.monotonic()
        return ended

    def cancel(self, operation: Optional[Operation[Any]] = None) -> int:
        """Cancel an operation of start() or run(), or all; each ends as usual. Return: how many are found."""
        if operation is None:
            return check(lib.krdma_cancel(self.handle, 0, lib.KRDMA_CANCEL_ALL))
        return check(lib.krdma_cancel(self.handle, operation._op.user_data, 0))

    @contextlib.contextmanager
    def _begun(self, operations: Sequence[Operation[Any]]) -> Iterator[CData]:
        """Operations as an array of C; after a failure those that are not under way can be used again."""
        begun: List[Operation[Any]] = []
        try:
            for operation in operations:
                if operation.region.mover is not self:
                    raise ValueError("the operation is another Mover's")
                operation._begin(next(self._numbers))
                begun.append(operation)
            yield ffi.new("struct krdma_op[]", [operation._op[0] for operation in operations])
        except BaseException:
            for operation in begun:
                if operation._op.user_data not in self._under_way:
                    operation._withdraw()
            raise

    def _reap_ready(self) -> List[Operation[Any]]:
        # One at a time: each then has its own error text.
        count = self._reap_one()
        while count > 0:
            count = self._reap_one()
        if count != -errno.EAGAIN:
            check(count)
        # Also those of a call that an exception of a signal's handler has ended.
        ended, self._reaped = self._reaped, []
        if ended:
            self._wake()
        return ended

    def _reap_one(self) -> int:
        completion = ffi.new("struct krdma_completion *")
        counts: List[int] = []
        try:
            # In one go, as in start().
            counts.extend(map(lib.krdma_reap, [self.handle], [completion], [1]))
        finally:
            if counts and counts[0] > 0:
                # ORDER: it is under way until all else is done.
                operation = self._under_way[completion.user_data]
                self._reaped.append(operation)
                operation._end(completion.result, last_error() if completion.status else None)
                del self._under_way[completion.user_data]
        return counts[0]

    # ---- asyncio ----

    async def run(self, *operations: Operation[Any]) -> List[Any]:
        """Do operations, and let the event loop go on meanwhile.

        Return: the result of each; raises the error of the first that has failed, when all have ended. If
        the task is cancelled, so are the operations: until they have ended, their memory is the kernel's.
        """
        loop = asyncio.get_running_loop()
        self._read_in(loop)
        try:
            for operation in operations:
                if operation._under_way or operation._ended:
                    raise ValueError("the operation is under way")
            return await self._run(loop, operations)
        finally:
            self._stop_run()

    async def _run(self, loop: asyncio.AbstractEventLoop, operations: Sequence[Operation[Any]]) -> List[Any]:
        interrupted: Optional[BaseException] = None
        started = 0
        ended: "asyncio.Future[None]" = loop.create_future()
        left = len(operations)

        def one_ended() -> None:
            nonlocal left
            left -= 1
            if not left and not ended.done():
                ended.set_result(None)

        try:
            for operation in operations:
                operation._ended = one_ended
            try:
                while started < len(operations):
                    count = self.start(*operations[started:started + lib.KRDMA_SUBMIT_MAX])
                    started += count
                    if not count:
                        await self._wait_for_room(loop)
            except BaseException as failure:
                interrupted = failure
                # start() may have been interrupted when some were under way.
                left = sum(operation._under_way for operation in operations)
            while left:
                if interrupted:
                    for operation in operations:
                        if operation._under_way:
                            self.cancel(operation)
                try:
                    await asyncio.wait([ended])
                except asyncio.CancelledError as failure:
                    interrupted = failure
        finally:
            for operation in operations:
                operation._ended = None
        if interrupted:
            raise interrupted
        return [operation.result() for operation in operations]

    async def _wait_for_room(self, loop: asyncio.AbstractEventLoop) -> None:
        room = loop.create_future()
        self._room.append(room)
        await room

    def _wake(self) -> None:
        waiting, self._room = self._room, []
        for room in waiting:
            if not room.done():
                room.set_result(None)

    def _read_in(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop not in (None, loop):
            raise RuntimeError("the Mover is in use by another event loop")
        if not self._runs:
            loop.add_reader(self.fileno(), self._reap_ready)
            self._loop = loop
        self._runs += 1

    def _stop_run(self) -> None:
        self._runs -= 1
        if not self._runs:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._loop is not None and self._handle is not None:
            self._loop.remove_reader(self.fileno())
        self._loop = None
