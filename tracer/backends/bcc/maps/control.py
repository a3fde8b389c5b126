"""The control block: a page that programs test at each hit and that we read and write through a mapping.

Its layout is `struct control` as `codegen.generate` writes it: exiting, hit, cpid, started, wakeup, then the
generations, the lengths that programs and user space keep, the control events that found the ring full, the marks,
which programs alone raise, and a byte for each site of which it is noted that it was hit.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

_EXITING, _HIT, _CPID, _STARTED, _WAKEUP, _FIRST = range(6)
_NO_WAKEUP, _FORCE_WAKEUP = 1, 2  # BPF_RB_NO_WAKEUP and its sibling, include/uapi/linux/bpf.h


def control_size(generations: int, lengths: int, records: int, marks: int, noted: int = 0) -> int:
    """Bytes of the block."""
    return 8 * (_FIRST + generations + 2 * lengths + records + marks + -(-noted // 8))


class Control:
    """The mapped block of one session."""

    def __init__(self, fd: int, generations: int, lengths: int, records: int, marks: int, noted: int = 0) -> None:
        size = control_size(generations, lengths, records, marks, noted)
        self._map = mmap.mmap(fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        self._map.madvise(mmap.MADV_DONTFORK)  # a mapping in another process would keep the kernel's map
        # As native words: each access is one load or store, never a torn one.
        self._words = memoryview(self._map).cast("Q")
        self._generations = _FIRST
        self._new_keys = _FIRST + generations
        self._given = self._new_keys + lengths
        self._pending = self._given + lengths
        self._records = records
        self._marks = self._pending + records
        self._noted = 8 * (self._marks + marks)

    def exit_code(self) -> int | None:
        """The code of the exit() that a probe has said, if one has."""
        said = self._words[_EXITING]
        if not said:
            return None
        code = (said - 1) & 0xFFFF_FFFF
        return code - (1 << 32) if code >> 31 else code

    def stop(self) -> None:
        """No hit after it counts."""
        if not self._words[_EXITING]:
            self._words[_EXITING] = 1

    @property
    def hit(self) -> bool:
        """Whether any probe was hit."""
        return self._words[_HIT] != 0

    def start(self, started_ns: int, child_pid: int) -> None:
        """Sets what `elapsed` counts from, and `cpid`."""
        self._words[_STARTED] = started_ns
        self._words[_CPID] = child_pid
        self.sleeps(False)

    def sleeps(self, asleep: bool) -> None:
        """Whether a record is to wake whoever polls the ring."""
        self._words[_WAKEUP] = _FORCE_WAKEUP if asleep else _NO_WAKEUP

    def generation(self, index: int) -> int:
        """The number that new keys of a map carry."""
        return self._words[self._generations + index]

    def next_generation(self, index: int) -> None:
        """New hits go to new keys from here on."""
        self._words[self._generations + index] += 1

    def mark(self, index: int) -> int:
        """The number of times that probes have cleared a map (low 32 bits) and zeroed it (high 32 bits)."""
        return self._words[self._marks + index]

    def noted(self, sites: range) -> list[bool]:
        """Whether each of these sites was hit."""
        return [word != 0 for word in self._map[self._noted + sites.start : self._noted + sites.stop]]

    def give(self, index: int, delta: int) -> None:
        """Keys that user space put into a map whose length probes ask for (negative: took out)."""
        word = self._given + index
        self._words[word] = (self._words[word] + delta) & 0xFFFF_FFFF_FFFF_FFFF

    def empty(self, index: int) -> None:
        """The map has no keys any more."""
        self._words[self._given + index] = -self._words[self._new_keys + index] & 0xFFFF_FFFF_FFFF_FFFF

    def pending(self, seen: Sequence[int]) -> list[int]:
        """The number of control events of each record that did not fit the ring and are not in `seen` yet."""
        return [self._words[self._pending + number] - seen[number] for number in range(self._records)]

    def close(self) -> None:
        """Unmaps the block."""
        self._words.release()
        self._map.close()
