"""Memory of a process whose pages may never come: another process or machine has to bring them.

Who reads such a page waits for it, the kernel too: of a userfaultfd that nobody serves any more, of a FUSE file system
that does not answer, of a file server that is away.
"""

from __future__ import annotations

import os
import time

from tracer.dataclass import dataclass
from tracer.host.stat import directory
from tracer.servers import KINDS

_REGISTERED = {b"um", b"uw", b"ui"}
"""The flags in smaps of memory registered with a userfaultfd: for missing pages, for writes, for minor faults."""
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Found:
    """A finding, in words without the process; None for nothing. `seconds`: how long that took. `whole`: whether
    all mappings were looked at.
    """

    what: str | None
    seconds: float
    whole: bool


def unserved(pid: int, most_s: float) -> Found:
    """Looks for such memory, for about `most_s` at most: the kernel walks the memory of the process for smaps. Half a
    GB takes 0.4 to 13 ms (Linux 6.18, busy machine). A process that cannot be looked at has none.
    """
    return unserved_at(directory(pid), most_s)


def unserved_at(home: str, most_s: float) -> Found:
    """Looks for such memory as `unserved` does, in the process that has this directory in /proc."""
    begun = time.monotonic()
    what, whole = None, True
    try:
        kinds = {device: kind for kind, _, device in mounts_of_others(f"{home}/mountinfo")}
        what, whole = _look(f"{home}/smaps", kinds, begun + most_s)
    except OSError:
        pass
    return Found(what, time.monotonic() - begun, whole)


def mounts_of_others(path: str) -> list[tuple[str, str, int]]:
    """The file systems that others serve: the kind, the place, and the device that their files have in maps; `path` is
    of a mountinfo. Raises `OSError`.
    """
    mounts = []
    with open(path, "rb") as lines:
        for line in lines:
            head, _, tail = line.decode(errors="replace").partition(" - ")
            kind = tail.split(" ", 1)[0]
            if kind in KINDS or kind.startswith("fuse."):
                _, _, device, _, place = head.split(" ")[:5]
                mounts.append((kind, place, os.makedev(*map(int, device.split(":")))))
    return mounts


def _look(path: str, kinds: dict[int, str], until: float) -> tuple[str | None, bool]:
    rest = b""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while piece := os.read(file, _PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"VmFlags:"):
                    if not _REGISTERED.isdisjoint(line.split()):
                        return "memory that a userfaultfd serves", True
                elif kinds and (kind := _kind(line, kinds)) is not None:
                    return f"a file of the file system {kind} in its memory", True
            if time.monotonic() > until:
                return None, False
    finally:
        os.close(file)
    return None, True


def _kind(line: bytes, kinds: dict[int, str]) -> str | None:
    """The file system of a mapping that its line is of, if others serve it and it can be read."""
    fields = line.split(None, 5)
    if len(fields) < 5 or fields[1][:1] != b"r" or b"-" not in fields[0]:
        return None
    major, _, minor = fields[3].partition(b":")
    return kinds.get(os.makedev(int(major, 16), int(minor, 16)))
