"""The files in which just-in-time compilers write their functions for perf: lines of start, size and name.

Source: tools/perf/Documentation/jit-interface.txt of Linux; numbers are hexadecimal.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right

from tracer.errors import TracerError, printable
from tracer.resolve.processes.maps import root
from tracer.resolve.processes.stat import status_of

_MOST = 64
_MAX_SIZE = 1 << 28


class JitMaps:
    """The maps of some processes, each read again where it has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], list[int], list[tuple[int, int, str]]]] = {}

    def name(self, path: str, owner: int, address: int) -> tuple[str, int] | None:
        """The function at an address and the distance from its start. `owner` must have written the map, or root."""
        status = _trusted(path, owner)
        if status is None:
            return None
        version = (status.st_size, status.st_mtime_ns)
        if path not in self._known or self._known[path][0] != version:
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            entries = _read(path)
            self._known[path] = (version, [each[0] for each in entries], entries)
        _, starts, entries = self._known[path]
        start, size, name = entries[max(bisect_right(starts, address) - 1, 0)] if entries else (0, 0, "")
        return (name, address - start) if name and start <= address < start + size else None


def jit_map(pid: int) -> tuple[str, int]:
    """The path of the process's map, and the user who must own it."""
    inner, owner, prefix = pid, 0, ""
    try:
        fields = status_of(pid)
        inner, owner = int(fields.get("NSpid", str(pid)).split()[-1]), int(fields.get("Uid", "0 0").split()[1])
        prefix = root(pid)
    except (OSError, TracerError):
        pass  # it has ended
    return f"{prefix}/tmp/perf-{inner}.map", owner


def _trusted(path: str, owner: int) -> os.stat_result | None:
    """The state of a map that its process's user (or root) wrote: anyone may create names in /tmp."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    ours = stat.S_ISREG(status.st_mode) and status.st_uid in (0, owner) and status.st_size <= _MAX_SIZE
    return status if ours else None


def _read(path: str) -> list[tuple[int, int, str]]:
    """The entries in order of address. Of several at one address the last one is kept, since code is replaced."""
    entries: dict[int, tuple[int, int, str]] = {}
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, encoding="utf-8", errors="backslashreplace") as lines:
            for line in lines:
                fields = line.rstrip("\n").split(" ", 2)
                try:
                    start, size = int(fields[0], 16), int(fields[1], 16)
                    entries[start] = (start, size, printable(fields[2]))
                except (ValueError, IndexError):
                    continue
    except OSError:
        return []
    return [entries[start] for start in sorted(entries)]
