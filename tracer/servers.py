"""Files that another process or machine serves (FUSE, NFS): whoever touches one may wait for ever.

Once such a request is on its way not even SIGKILL ends the wait (request_wait_answer of fs/fuse/dev.c). So before
tracer touches a path there, a process beside does, which is left behind where no answer comes. Whether a path lies
there is told by the list of mounts, and by links on the way, which are read only as far as the first such mount.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import sys
import time
from contextlib import suppress

if __name__ != "__main__":
    from tracer import errors

KINDS = frozenset(("nfs", "nfs4", "cifs", "smb3", "ceph", "afs", "fuse", "fuseblk"))
"""File systems that are served so, beside `fuse.NAME`. 9p and virtiofs are not among them: the hypervisor serves these,
as it does disks.
"""

_TOLD_AFTER_S, _TICK_S = 1.0, 0.1
_KNOWN_S = 1.0
"""How long an answer of a server stands for the next."""
_MOST_LINKS = 40
_ESCAPED = re.compile(r"\\([0-7]{3})")
_OF_PROCESS = re.compile(r"/proc/([0-9]+)/")
_answered: dict[tuple[str, str], float] = {}


def await_answer(path: str, mounts: frozenset[str]) -> None:
    """Returns once the server of a path has answered, if it lies below one of these mounts, or of a process's own.
    Raises `OSError` where the end is asked for meanwhile, and what the handler of a signal raises.
    """
    where = _mount_of(path, mounts)
    if where is None or time.monotonic() < _answered.get(where, 0.0):
        return
    try:
        answer, pid = _touch(path)
    except OSError:  # no room for a process: the file may be there all the same
        return
    try:
        before, begun, told = errors.asked_to_end(), time.monotonic(), False
        poll = select.poll()
        poll.register(answer, 0)
        while not poll.poll(_TICK_S * 1000):
            if errors.asked_to_end() != before:
                raise OSError(errno.EINTR, "its file system does not answer", path)
            if not told and time.monotonic() > begun + _TOLD_AFTER_S:
                told = True
                errors.tell(f"waiting for the file system of {path}, which does not answer")
        with suppress(ChildProcessError):  # SIGCHLD is ignored, and the kernel has reaped it
            os.waitpid(pid, 0)
        _answered[where] = time.monotonic() + _KNOWN_S
    finally:
        os.close(answer)


def served(mountinfo: str) -> frozenset[str]:
    """The places of such file systems, by the text of a mountinfo."""
    places = set()
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        kind = tail.split(" ", 1)[0]
        if kind in KINDS or kind.startswith("fuse."):
            places.add(_ESCAPED.sub(lambda digits: chr(int(digits[1], 8)), head.split(" ")[4]))
    return frozenset(places)


def _mount_of(path: str, mounts: frozenset[str]) -> tuple[str, str] | None:
    """The mount that a path leads to, and whose: a process has its own ones."""
    parts, prefix, whose = os.path.abspath(path).split("/")[1:], "", ""
    for _ in range(_MOST_LINKS):
        while parts:
            part = parts.pop(0)
            if part in ("", "."):
                continue
            prefix = os.path.dirname(prefix).rstrip("/") if part == ".." else f"{prefix}/{part}"
            if prefix in mounts:
                return whose, prefix
            try:
                target = os.readlink(prefix)
            except OSError:
                continue
            process = _OF_PROCESS.match(prefix)
            if process is not None:  # root, exe, map_files: a path as that process sees it
                whose, mounts = process[1], of_process(process[1])
            prefix = "" if target.startswith("/") else os.path.dirname(prefix)
            parts = [*target.split("/"), *parts]
            break
        else:
            return None
    return None


def of_process(pid: str) -> frozenset[str]:
    """The mount points of such file systems that a process sees."""
    try:
        with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return served(file.read())
    except OSError:
        return frozenset()


def _touch(path: str) -> tuple[int, int]:
    """A descriptor that hangs up once a path was looked at, and the process that does so: this file, run by its path,
    which has nothing of ours. Raises `OSError` where there can be none.
    """
    answer, write = os.pipe2(os.O_CLOEXEC)
    try:
        nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 2)]
        pid = os.posix_spawn(
            sys.executable, [sys.executable, "-I", "-S", "-B", os.path.abspath(__file__), path], {},
            file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), *nothing], setsid=True,
        )  # fmt: skip
    except OSError:
        os.close(answer)
        raise
    finally:
        os.close(write)
    return answer, pid


def _look(path: str) -> None:
    """The other process."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        os.listdir(path)
    elif stat.S_ISREG(mode):
        os.pread(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1, 0)


if __name__ == "__main__":
    try:
        _look(sys.argv[1])
    finally:
        os._exit(0)
