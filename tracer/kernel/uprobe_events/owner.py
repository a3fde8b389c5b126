"""The owners of definitions: the name of a session's group, and the test whether the session is alive.

A session's events stand in the group `tracer_<pid>_<8 hex digits>`. As long as it lives it holds a lock (flock(2)) on
the file `/run/tracer/<group>`; the kernel drops the lock with the process, however it ends. The lock is the truth: the
pid in the name is for people, since in another pid namespace it means another process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat

from tracer.dataclass import dataclass
from tracer.errors import TracerError

DIRECTORY = "/run/tracer"
_GROUP = re.compile(r"tracer_\d+_[0-9a-f]{8}")


@dataclass(slots=True)
class Owner:
    """A living session's claim on its group."""

    group: str
    path: str
    fd: int

    def release(self, empty: bool = True) -> None:
        """Gives the claim up; a second call does nothing. Where the group is not `empty`, its file stays without a
        lock: it then counts as that of a dead session, whose definitions the next start removes.
        """
        if self.fd >= 0:
            if empty:
                remove(self.path)
            os.close(self.fd)
            self.fd = -1


def claim(directory: str = DIRECTORY) -> Owner:
    """Claims a new group. Raises `TracerError` where the lock cannot be made."""
    group = f"tracer_{os.getpid()}_{os.urandom(4).hex()}"
    path = f"{directory}/{group}"
    try:
        _make(directory)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            # A sweep may have taken the file for a dead session's between the two calls, and removed it.
            if _same(fd, path):
                return Owner(group, path, fd)
            os.close(fd)
    except OSError as error:
        raise TracerError(
            f"cannot make the lock {path}: {error.strerror}",
            f"{directory} must be writable: it shows which sessions live",
        ) from None


def is_ours(group: str) -> bool:
    """Whether a group's name is one that `claim` gives."""
    return _GROUP.fullmatch(group) is not None


def is_alive(group: str, directory: str = DIRECTORY) -> bool | None:
    """Whether the session that owns a group lives; None where there is no lock to tell (another machine's or mount
    namespace's /run).
    """
    fd = _open(group, directory)
    if fd is None:
        return None
    try:
        return not _lock(fd)
    finally:
        os.close(fd)


def forget_dead(directory: str = DIRECTORY, keep: frozenset[str] = frozenset()) -> None:
    """Removes the lock files that nobody holds, but for those of the groups to `keep`."""
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return
    for group in names:
        if group in keep or not is_ours(group):
            continue
        fd = _open(group, directory)
        if fd is None:
            continue
        try:
            # Removed under the lock: a session that is about to take it notices (see `claim`).
            if _lock(fd):
                remove(f"{directory}/{group}")
        finally:
            os.close(fd)


def _open(group: str, directory: str) -> int | None:
    try:
        return os.open(f"{directory}/{group}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove(path: str) -> None:
    """Removes a lock file; none there is no error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _make(directory: str) -> None:
    """Makes the directory, or checks that nobody else can put anything there."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        status = os.lstat(directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "it belongs to somebody else") from None


def _same(fd: int, path: str) -> bool:
    held = os.fstat(fd)
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino)
