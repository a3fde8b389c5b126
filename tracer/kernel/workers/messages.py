"""Messages between the watcher and its process, with descriptors in them; and the one write that both make."""

from __future__ import annotations

import marshal
import os
import struct
import time
from _socket import (
    CMSG_SPACE,
    MSG_CMSG_CLOEXEC,
    MSG_DONTWAIT,
    MSG_PEEK,
    MSG_WAITALL,
    SCM_RIGHTS,
    SOL_SOCKET,
    socket,
)  # fmt: skip
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tracer.host.polling import readable
from tracer.kernel.syscall import Call

# `_socket`: the module above it takes 4 ms to load, a twentieth of a trace's start.

MOST_DESCRIPTORS = 250
"""In one message: the kernel takes 253 (SCM_MAX_FD)."""
_HEAD = struct.Struct("=I")
_PEEK_S = 0.002


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
    """Receives what was sent, None where the other side has gone. Raises `OSError`. Only what is returned keeps
    descriptors.
    """
    room = CMSG_SPACE(4 * MOST_DESCRIPTORS)
    head, rights, _, _ = connection.recvmsg(_HEAD.size, room, MSG_CMSG_CLOEXEC | MSG_WAITALL)
    passed = [fd for *_, data in rights for (fd,) in struct.iter_unpack("=i", data)]
    whole = False
    try:
        if len(head) < _HEAD.size:
            return None
        wanted: int = _HEAD.unpack(head)[0]
        data = b""
        while len(data) < wanted:  # a signal can end the wait
            part = connection.recv(wanted - len(data), MSG_WAITALL)
            if not part:
                return None
            data += part
        message = marshal.loads(data)
        whole = True
        return message, passed
    finally:
        if not whole:
            for fd in passed:
                os.close(fd)


def has_come(connection: socket, timeout_s: float) -> bool:
    """Whether there is a message, the end or an error, after at most `timeout_s`; also where poll(2) has no memory."""
    try:
        return bool(readable([connection.fileno()], timeout_s))
    except OSError:
        until = time.monotonic() + timeout_s
        while True:
            try:
                connection.recv(1, MSG_PEEK | MSG_DONTWAIT)
            except BlockingIOError:
                if time.monotonic() > until:
                    return False
                time.sleep(_PEEK_S)
            except OSError:
                return True
            else:
                return True


def last_words(connection: socket) -> str | None:
    """The text that the other side sent before it closed its end; nothing more can be waited for here then."""
    with suppress(OSError):
        connection.settimeout(0)
        while (received := receive(connection)) is not None:
            message, passed = received
            for fd in passed:
                os.close(fd)
            if isinstance(message, str):
                return message
    return None


def rows_of(calls: Sequence[Call]) -> tuple[list[tuple[object, ...]], list[int]]:
    """The calls to be sent, and the descriptors that they name by their place."""
    ours = list(dict.fromkeys(fd for call in calls for _, fd in (*call.descriptors, *call.paths)))
    return [_row(call, ours) for call in calls], ours


def _row(call: Call, descriptors: Sequence[int]) -> tuple[object, ...]:
    index = descriptors.index
    return (
        call.number, call.structure, call.before, call.after, call.pointers,
        tuple((offset, index(fd)) for offset, fd in call.descriptors),
        tuple((offset, index(fd)) for offset, fd in call.paths),
    )  # fmt: skip
