"""Messages between the watcher and its process, with descriptors in them; and the one write that both make."""

from __future__ import annotations

import marshal
import os
import struct
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC, MSG_WAITALL, SCM_RIGHTS, SOL_SOCKET, socket
from collections.abc import Sequence
from typing import Any

from tracer.kernel.syscall import Call

# `_socket`: the module above it takes 4 ms to load, a twentieth of a trace's start.

MOST_DESCRIPTORS = 250
"""In one message: the kernel takes 253 (SCM_MAX_FD)."""
_HEAD = struct.Struct("=I")


def append(path: bytes, text: bytes) -> None:
    """Appends to a file by one write(2). Raises `OSError`."""
    fd = to_append(path)
    try:
        os.write(fd, text)
    finally:
        os.close(fd)


def to_append(path: bytes) -> int:
    """A descriptor to append to a file. Raises `OSError`."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)


def send(connection: socket, message: Any, descriptors: Sequence[int] = ()) -> None:
    """Sends what marshal(3) takes, and descriptors with it. Raises `OSError`."""
    data = marshal.dumps(message)
    data = _HEAD.pack(len(data)) + data
    rights = [(SOL_SOCKET, SCM_RIGHTS, struct.pack(f"={len(descriptors)}i", *descriptors))] if descriptors else []
    sent = connection.sendmsg([data], rights)
    if sent < len(data):
        connection.sendall(memoryview(data)[sent:])


def receive(connection: socket) -> tuple[Any, list[int]] | None:
    """What was sent, None where the other side has gone. Raises `OSError`."""
    room = CMSG_SPACE(4 * MOST_DESCRIPTORS)
    head, rights, _, _ = connection.recvmsg(_HEAD.size, room, MSG_CMSG_CLOEXEC | MSG_WAITALL)
    passed = [fd for *_, data in rights for (fd,) in struct.iter_unpack("=i", data)]
    if len(head) < _HEAD.size:
        return None
    wanted: int = _HEAD.unpack(head)[0]
    data = b""
    while len(data) < wanted:  # a signal can end the wait
        part = connection.recv(wanted - len(data), MSG_WAITALL)
        if not part:
            return None
        data += part
    return marshal.loads(data), passed


def rows_of(calls: Sequence[Call]) -> tuple[list[tuple[object, ...]], list[int]]:
    """The calls to be sent, and the descriptors that they name by their place."""
    ours = list(dict.fromkeys(fd for call in calls for _, fd in (*call.descriptors, *call.paths)))
    return [_row(call, ours) for call in calls], ours


def _row(call: Call, descriptors: Sequence[int]) -> tuple[object, ...]:
    at = descriptors.index
    return (
        call.number, call.structure, call.before, call.after, call.pointers,
        tuple((offset, at(fd)) for offset, fd in call.descriptors),
        tuple((offset, at(fd)) for offset, fd in call.paths),
    )  # fmt: skip
