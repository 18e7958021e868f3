# SPDX-License-Identifier: LGPL-2.1 OR BSD-2-Clause
"""Move bytes between the memories of hosts over RDMA, with the module krdma_mover.

    import krdma

    with krdma.Mover() as mover, mover.connect("nodeB") as session:
        with session.open("scratch") as region:
            region.write(b"some text", 4096)
            print(region.read(9, 4096))

Local memory is any object with the buffer protocol: bytes, bytearray, memoryview, array, mmap, an array
of numpy. The adapter reads and writes it in place; nothing is copied. Memory that many operations use is
registered once, with Mover.buffer().

Errors are exceptions of the class Error, an OSError with the errno and the module's sentence; each is also
an instance of Python's class for that errno: ConnectionRefusedError, TimeoutError, PermissionError.

Threads may share a Mover. A call that waits lets other threads of Python run.
"""
from ._base import Error, Right, counters, resolve
from .message import Message, MessageQueue
from .mover import Mover
from .objects import Buffer, Export, Piece, Region, Session
from .operation import CompareSwap, Digest, FetchAdd, Flush, Operation, Read, Send, Write

__all__ = [
    "Buffer", "CompareSwap", "Digest", "Error", "Export", "FetchAdd", "Flush", "Message", "MessageQueue", "Mover",
    "Operation", "Piece", "Read", "Region", "Right", "Send", "Session", "Write", "counters", "resolve",
]
