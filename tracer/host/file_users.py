"""Finds the processes that run the code of a file, and those that run another file of the same name.

After a package was upgraded, processes go on with the old file. What is probed is the new one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from tracer.dataclass import dataclass, field
from tracer.errors import TracerError
from tracer.host.maps import Picture, root
from tracer.host.stat import directory, facts_of, pids

_DELETED = b" (deleted)"
_OTHER_ROOT = re.compile(r"^/proc/\d+/root(?=/)")


@dataclass(frozen=True, slots=True)
class Other:
    """A process that runs another file of the name: one that has been `deleted` since, or one of another `root`."""

    pid: int
    deleted: bool
    root: bool


@dataclass(slots=True)
class Uses:
    """The processes that have a file mapped as code, and those that have another file of its name mapped so."""

    pids: list[int] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)


def uses_of(paths: Iterable[str], among: Sequence[Picture] = ()) -> dict[str, Uses]:
    """The users of each file, by the mappings of all processes, or `among` some. Tracer itself and its workers are
    left out. A file that has gone has no users. Only root sees the mappings of other users' processes.
    """
    uses = {path: Uses() for path in paths}
    by_inode: dict[int, list[str]] = {}
    by_name: dict[str, list[str]] = {}
    for path in uses:
        try:
            by_inode.setdefault(os.stat(path).st_ino, []).append(path)
        except OSError:
            continue
        by_name.setdefault(_OTHER_ROOT.sub("", os.path.realpath(path)), []).append(path)
    for process in among or map(Picture, pids()):
        number = process.pid
        if number == os.getpid() or (not among and _is_ours(number)):
            continue
        try:
            every = process.mappings
        except TracerError:
            continue
        code = {
            (mapping.file[1], mapping.path, mapping.deleted)
            for mapping in every if mapping.executable and mapping.file is not None
        }  # fmt: skip
        inodes = {inode for inode, _, _ in code}
        for inode in inodes & by_inode.keys():
            for path in by_inode[inode]:
                uses[path].pids.append(number)
        for inode, name, deleted in code:
            for path in by_name.get(name, ()) if inode not in by_inode else ():
                uses[path].others.append(Other(number, deleted, not deleted and _has_other_root(number)))
    return uses


def older_users(paths: Iterable[str]) -> dict[str, tuple[list[int], bool]]:
    """The processes that run a deleted file of the name of one that there is, by that, and whether any runs that. Only
    root sees other users'.
    """
    names = {os.fsencode(_OTHER_ROOT.sub("", os.path.realpath(path))): path for path in paths}
    older_pids: dict[str, list[int]] = {}
    newer: set[str] = set()
    for pid in pids():
        try:
            with open(f"{directory(pid)}/maps", "rb") as file:
                text = file.read()
        except OSError:
            continue
        # To take all lines of all processes apart would take ten times as long.
        if not any(name in text for name in names) or _is_ours(pid) or _has_other_root(pid):
            continue
        for line in text.splitlines():
            fields = line.split(None, 5)
            path = names.get(fields[-1].removesuffix(_DELETED))
            if path is None or b"x" not in fields[1] or not os.path.exists(path):
                continue
            if not line.endswith(_DELETED):
                newer.add(path)
            elif pid not in older_pids.setdefault(path, []):
                older_pids[path].append(pid)
    return {path: (older, path in newer) for path, older in older_pids.items()}


def listed(processes: Sequence[int]) -> str:
    """`process 12 (ticker)`, `process 12 (ticker) and 2 more`."""
    rest = len(processes) - 1
    from tracer.host.named import named

    return named(processes[0]) + (f" and {rest} more" if rest else "")


def _is_ours(pid: int) -> bool:
    facts = facts_of(pid)
    return facts is not None and facts.parent == os.getpid()


def _has_other_root(pid: int) -> bool:
    try:
        return bool(root(pid))
    except TracerError:
        return False
