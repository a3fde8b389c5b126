"""The numbers of control groups (cgroup v2), by which BPF knows them too, and their paths; and what memory a group may
use.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from operator import itemgetter

_OWN = "/proc/self/cgroup"
_AT_FDCWD = -100
_NO_LIMIT = 1 << 60
"""Version 1 writes the largest number of pages where there is none."""

_HANDLE = struct.Struct("=IiQ")  # struct file_handle of name_to_handle_at(2), with room for one number


def number_of(path: str) -> int:
    """The number of the group that a folder of a cgroup file system stands for. Raises `OSError`."""
    handle = ctypes.create_string_buffer(_HANDLE.pack(8, 0, 0), _HANDLE.size)
    mount = ctypes.c_int()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.name_to_handle_at(_AT_FDCWD, os.fsencode(path), handle, ctypes.byref(mount), 0):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)
    size, _, number = _HANDLE.unpack(handle.raw)
    # Before Linux 5.5 the number is the inode's, and the handle's upper half counts how often that was used.
    return int(number & ((1 << 8 * size) - 1))


def own_group() -> int | None:
    """The number of the group that this process is in; None where no cgroup file system shows it."""
    try:
        with open(_OWN, encoding="utf-8", errors="surrogateescape") as file:
            inside = next((line[3:].rstrip("\n") for line in file if line.startswith("0::")), None)
        root = next((point for point, kind, inside_it in _mounts() if (kind, inside_it) == ("cgroup2", "/")), None)
        return None if inside is None or root is None else number_of(root + inside)
    except OSError:
        return None


def memory_limit() -> tuple[str, int] | None:
    """The file with the lowest limit on memory of the groups that this process is in, and the limit in bytes; None
    where there is none.
    """
    limits: list[tuple[int, str]] = []
    with suppress(OSError), open(_OWN, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, controllers, inside = line.rstrip("\n").split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            kind, name = ("cgroup", "memory.limit_in_bytes") if controllers else ("cgroup2", "memory.max")
            for point, mounted, root in _mounts():
                if mounted != kind or not f"{inside}/".startswith(f"{root.rstrip('/')}/"):
                    continue
                folder = point + inside[len(root.rstrip("/")) :].rstrip("/")
                while len(folder) >= len(point):
                    limits += _limit(f"{folder}/{name}")
                    folder = folder.rpartition("/")[0]
    return min(((path, limit) for limit, path in limits), key=itemgetter(1), default=None)


def more_memory() -> str:
    """The remedy where memory is short."""
    lowest = memory_limit()
    if lowest is None:
        return "free some memory"
    path, limit = lowest
    return f"raise the limit of the control group ({path} has {limit >> 20} MiB)"


def _limit(path: str) -> list[tuple[int, str]]:
    try:
        with open(path) as file:
            limit = int(file.read())
    except (OSError, ValueError):  # "max", and in other hierarchies of version 1 there is no such file
        return []
    return [(limit, path)] if limit < _NO_LIMIT else []


def paths_of(number: int, names: str = "*") -> str:
    """The paths of the groups with that number as bpftrace writes them, `unified:/a,cpu:/b`: in each mounted hierarchy
    whose name matches a wildcard, version 2 first. A group of version 1 can have the number of another.
    """
    mounts = [("unified" if kind == "cgroup2" else os.path.basename(point), point) for point, kind, _ in _mounts()]
    mounts.sort(key=lambda mount: (mount[0] != "unified", mount))
    matched = [mount for mount in dict.fromkeys(mounts) if fnmatchcase(mount[0], names)]
    return ",".join([f"{name}:{path}" for name, point in matched if (path := _path(number, point))])


_paths: dict[tuple[int, str], str] = {}


def _path(number: int, point: str) -> str:
    """The path of the group below a mount point; "" where it is nowhere."""
    if (number, point) in _paths:
        return _paths[number, point]
    for folder, _, _ in os.walk(point):
        try:
            if os.stat(folder).st_ino == number:
                return _paths.setdefault((number, point), folder[len(point) :] or "/")
        except OSError:
            continue  # it has gone
    return ""


def _mounts() -> Iterator[tuple[str, str, str]]:
    """The mount points of cgroup file systems, their type (`cgroup` or `cgroup2`), and the group at each."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words, _, rest = line.partition(" - ")
            kind = rest.partition(" ")[0]
            if kind in ("cgroup", "cgroup2"):
                _, _, _, root, point, *_ = words.split(" ")
                yield re.sub(r"\\([0-7]{3})", lambda escaped: chr(int(escaped[1], 8)), point), kind, root
