"""The one door to files that somebody else can name or write: the traced program, its user, a link in a folder of many.

Opening one must not wait (a FIFO waits for its writer, a lease for its holder) and must not do anything (a device may
act on being opened). So the path is resolved with O_PATH first, which opens nothing; only what is a regular file is
opened then, without blocking. What is read has a bound, and comes in pieces, so that handlers of signals run between.

What the user names on the command line is another matter (`given`): `<(…)` is a FIFO that has to be waited for.
`tests/unit/test_opening.py` lists who opens files by himself, and why.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator

PIECE = 1 << 20
"""Bytes that are read at once: some hundred microseconds."""

_SERVED = re.compile(rb" - (?:fuse(?:blk|\.\S+)?|nfs4?|cifs|smb3|ceph|afs) ")
_LOOK_S = 1.0
_mounts, _looked = b"", -_LOOK_S
"""The kernel's list of what is mounted, and when it was read."""

NOT_REGULAR = "not a regular file"
NO_PROC = "/proc is not mounted"


def await_server(path: str | bytes) -> None:
    """Before a path is touched that others can name: returns once its file system has answered, if that is one of
    FUSE or of another machine. Ctrl-C ends the wait. Raises `OSError`.
    """
    global _mounts, _looked
    now = time.monotonic()
    if now > _looked + _LOOK_S:
        _looked = now
        try:
            with open("/proc/self/mountinfo", "rb") as file:
                _mounts = file.read()
        except OSError:
            _mounts = b""
    name = os.fsdecode(path)
    if _SERVED.search(_mounts) or name.startswith("/proc/"):
        from tracer.servers import await_answer, served

        await_answer(name, served(os.fsdecode(_mounts)))


def opened(path: str | bytes, follow: bool = True) -> int:
    """A descriptor on a regular file, to read. Without `follow` a link is none. Raises `OSError`."""
    await_server(path)
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, NOT_REGULAR, path)
        try:
            return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if error.errno == errno.ENOENT and not os.path.isdir("/proc/self/fd"):  # the file is there
                raise OSError(errno.EOPNOTSUPP, NO_PROC, path) from None
            raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(handle)


def pieces(descriptor: int, most: int) -> Iterator[bytes]:
    """The bytes that are there to read, at most so many. A file of the kernel that would wait for more ends there."""
    while most > 0:
        try:
            piece = os.read(descriptor, min(PIECE, most))
        except BlockingIOError:
            return
        if not piece:
            return
        most -= len(piece)
        yield piece


def content(path: str | bytes, most: int, follow: bool = True) -> bytes:
    """The first bytes of a regular file. Raises `OSError`."""
    descriptor = opened(path, follow)
    try:
        return b"".join(pieces(descriptor, most))
    finally:
        os.close(descriptor)


def given(path: str | int, most: int) -> bytes:
    """All of a file, FIFO or terminal that the command line names, or of a descriptor. It is waited for, until the
    handler of a signal raises something. Raises `OSError`, also where it is longer than `most` bytes.
    """
    if not isinstance(path, int):
        await_server(path)
    descriptor = path if isinstance(path, int) else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    parts, room = [], most + 1
    try:
        while room and (piece := os.read(descriptor, min(PIECE, room))):
            parts.append(piece)
            room -= len(piece)
    finally:
        if descriptor != path:
            os.close(descriptor)
    if not room:
        raise OSError(errno.EFBIG, f"it is longer than {most} bytes", path)
    return b"".join(parts)
