"""The files in which just-in-time compilers write their functions for perf: lines of start, size and name.

Source: tools/perf/Documentation/jit-interface.txt of Linux; numbers are hexadecimal.

The traced program writes them, on and on, while they are read. So of each line only where its function starts and where
the line is in the file is kept, 12 bytes; what was read once is not read again while the file only grows; and of a file
that is larger than `MOST_BYTES` only so much of its end is read.
"""

from __future__ import annotations

import os
import re
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable

from tracer.dataclass import NamedTuple
from tracer.errors import TracerError, printable
from tracer.host.maps import root
from tracer.host.stat import status_of
from tracer.opening import PIECE, opened

MOST_BYTES = 64 << 20
"""The most bytes of one map, which takes half a second to read."""
MOST_NAME = 1024
"""Bytes of a name that are shown."""

_MOST = 64
_HEAD = 4096
_ENTRY = re.compile(rb"^(?:0x)?([0-9a-fA-F]{1,16}) (?:0x)?([0-9a-fA-F]{1,16}) [^\n]", re.MULTILINE)
_LONGEST_START = 64
_PLACE_BITS = PIECE.bit_length()
_SLOW_S, _REST = 0.02, 5
"""A map of which it took so long to read what was new is left alone for so many times as long: its writer is faster."""


class JitMaps:
    """The maps of some processes, each read on where it has changed. `cut` are the paths of those not read whole; where
    somebody `hurries`, none is read on.
    """

    def __init__(self, hurries: Callable[[], bool] = lambda: False) -> None:
        self._hurries = hurries
        self._maps: dict[str, _Map] = {}
        self.cut: set[str] = set()

    def name(self, path: str, owner: int, address: int) -> tuple[str, int] | None:
        """The function at an address and the distance from its start. `owner` must have written the map, or root:
        anyone may create names in /tmp.
        """
        try:
            descriptor = opened(path, follow=False)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if status.st_uid not in (0, owner):
                return None
            if path not in self._maps and len(self._maps) >= _MOST:
                del self._maps[next(iter(self._maps))]
            jit_map = self._maps.setdefault(path, _Map())
            jit_map.read(descriptor, status, self._hurries)
            if jit_map.is_cut:
                self.cut.add(path)
            return jit_map.name(descriptor, address)
        except OSError:
            return None
        finally:
            os.close(descriptor)


class _Block(NamedTuple):
    """A part of the file that ends with a line: where it begins and ends, the starts of its functions in their order,
    and the places of their lines from the beginning of the part. Of equal starts the last line is the last.
    """

    begin: int
    end: int
    starts: array[int]
    places: array[int]


class _Map:
    """The knowledge of one file."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._version: object = None
        self._file: tuple[int, int] = 0, 0
        self._size = 0
        self._head = b""
        self._rests_until = 0.0
        self.is_cut = False

    def read(self, descriptor: int, status: os.stat_result, hurries: Callable[[], bool]) -> None:
        """Reads what has been added, or all where the file is another one."""
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if version == self._version:
            return
        if time.monotonic() < self._rests_until:
            return
        first_time, begun = self._version is None, time.thread_time()
        head = os.pread(descriptor, _HEAD, 0)
        grown = (status.st_dev, status.st_ino) == self._file and status.st_size > self._size
        if not grown or not head.startswith(self._head):
            self._blocks = []
        elif self._blocks and self._blocks[-1].end - self._blocks[-1].begin < PIECE // 2:
            del self._blocks[-1]  # small ones are read once more, so that there are few
        self._version, self._file, self._size, self._head = version, version[:2], status.st_size, head
        first = max(status.st_size - MOST_BYTES, 0)
        self._add(descriptor, self._blocks[-1].end if self._blocks else first, status.st_size, hurries)
        while self._blocks and self._blocks[0].end <= first:
            del self._blocks[0]
        self.is_cut = first > 0
        took = time.thread_time() - begun
        if took > _SLOW_S and not first_time:
            self._rests_until = time.monotonic() + _REST * took

    def _add(self, descriptor: int, start: int, end: int, hurries: Callable[[], bool]) -> None:
        """Reads from a place to the end, as it was when that was looked at: a file may grow faster than it is read."""
        inside = start > 0 and not self._blocks  # of a line, whose beginning is left out
        while start < end:
            if hurries():
                return
            data = os.pread(descriptor, min(PIECE, end - start), start)
            if not data:
                return
            skipped = data.find(b"\n") + 1 or len(data) if inside else 0
            whole = data.rfind(b"\n") + 1
            inside = not whole
            # The last line may be half written; it is read once more then. Of a long one the beginning will do.
            text = data[skipped:] if inside or start + len(data) == end else data[skipped:whole]
            entries = [int(entry[1], 16) << _PLACE_BITS | entry.start() for entry in _ENTRY.finditer(text)]
            entries.sort()
            starts = array("Q", [packed >> _PLACE_BITS for packed in entries])
            places = array("I", [packed & (1 << _PLACE_BITS) - 1 for packed in entries])
            begin, start = start + skipped, start + (whole or len(data))
            self._blocks.append(_Block(begin, start, starts, places))
            if start + len(data) - whole == end:
                return

    def name(self, descriptor: int, address: int) -> tuple[str, int] | None:
        """The function at an address, by the line whose function starts nearest before it."""
        nearest, place = -1, -1
        for block in self._blocks:
            index = bisect_right(block.starts, address) - 1
            if index >= 0 and block.starts[index] >= nearest:
                nearest, place = block.starts[index], block.begin + block.places[index]
        if place < 0:
            return None
        line = os.pread(descriptor, _LONGEST_START + MOST_NAME + 1, place).partition(b"\n")[0]
        entry = _ENTRY.match(line)
        if entry is None or int(entry[1], 16) != nearest or address >= nearest + int(entry[2], 16):
            return None
        return _shown(line[entry.end() - 1 :]), address - nearest


def _shown(name: bytes) -> str:
    """A name as text, which is cut where it is very long."""
    end = MOST_NAME if len(name) > MOST_NAME else len(name)
    while end < len(name) and name[end] & 0xC0 == 0x80 and end > MOST_NAME - 4:
        end -= 1
    return printable(name[:end].decode("utf-8", "backslashreplace")) + ("…" if end < len(name) else "")


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
