"""The size of the stack's copy in a sample: more for the events whose stacks go on behind it.

perf fixes the size when a descriptor is opened. So new descriptors are opened and enabled beside those of an event, and
then the old ones are disabled. A hit in between comes from both, and counts once: on each CPU perf puts an event before
those that are there (perf_trace_add), so the newer descriptor's sample is written first, and nothing of the same thread
comes between. Once a thread has a sample of a newer descriptor on a CPU, none of an older one counts. Samples of every
other generation end with an extra word, which tells the two apart. If the rings are full at that moment, a hit can be
counted as lost twice.

If tracer falls behind, all copies get their first size again: a cut stack is a smaller loss than a lost hit. They grow
again after a while that gets longer each time.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass, field
from tracer.kernel import perf

if TYPE_CHECKING:
    from tracer.backends import Unwinder
    from tracer.backends.ftrace.samples.shape import Bytes, Shape

FIRST = 16 << 10
"""Bytes that are copied at first, unless the program says how many."""
_CALM_S, _LONGER = 1.0, 8
"""How long copies do not grow after a loss, and by which factor this time grows each time that they have shrunk."""
_KEPT = 8
"""Exchanges of which samples may still come: the next ones are seconds later."""
_HEAD = struct.Struct("=6xH4xIQI").unpack_from
_U32, _U64 = struct.Struct("=I").unpack_from, struct.Struct("=Q").unpack_from


@dataclass(slots=True)
class _Exchange:
    """An exchange of descriptors: the time in which older and newer ones were open (CLOCK_MONOTONIC), whether the
    samples of the newer are `marked`, and the threads and CPUs that had one.
    """

    begin: int
    end: int
    marked: bool
    newer: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class Copy:
    """The copies of one event, the one of that `number` among the openings."""

    number: int
    size: int = FIRST
    marked: bool = False
    wanted: int = 0
    exchanges: list[_Exchange] = field(default_factory=list)


class Copies:
    """The copies of a session's stacks, by the id of their event. `unwinder` tells what its stacks lack. `doubles`
    counts, by the number of an event, samples of hits that had been sampled already.
    """

    def __init__(self, copies: dict[int, Copy], unwinder: Unwinder, shape: Shape, doubles: Counter[int]) -> None:
        self._copies = copies
        self._unwinder = unwinder
        self._doubles = doubles
        self._prefix, self._callchain = struct.calcsize(shape.prefix), shape.callchain
        self._registers = 8 * shape.registers.bit_count()
        self._grown = self._shrunk = 0
        self._largest = FIRST
        self._lost = 0
        self._calm_s = _CALM_S
        self._again = 0.0

    def add(self, event: int, copy: Copy) -> None:
        """Adds an event that has copies."""
        self._copies[event] = copy

    def is_double(self, event: int, data: Bytes, offset: int) -> bool:
        """Whether the hit of the sample at `at` has been sampled by a newer descriptor."""
        copy = self._copies.get(event)
        if copy is None or not copy.exchanges:
            return False
        size, tid, moment, cpu = _HEAD(data, offset)
        for exchange in copy.exchanges:
            if exchange.begin <= moment <= exchange.end:
                break
        else:
            return False
        behind = offset + self._prefix
        behind += 8 + 8 * _U64(data, behind)[0] if self._callchain else 0
        behind += 4 + _U32(data, behind)[0]
        behind += 8 + (self._registers if _U64(data, behind)[0] else 0)  # PERF_SAMPLE_REGS_ABI_NONE
        copied = _U64(data, behind)[0]
        behind += 8 + (copied + 8 if copied else 0)
        if (behind < offset + size) == exchange.marked:
            exchange.newer.add((tid, cpu))
            return False
        double = (tid, cpu) in exchange.newer
        self._doubles[copy.number] += double
        return double

    def look(self, event: int) -> None:
        """Takes note of what the stacks of the sample that was just decoded lack."""
        wanted = self._unwinder.wanted
        if wanted:
            self._unwinder.wanted = 0
            copy = self._copies.get(event)
            if copy is not None and wanted <= perf.LARGEST_STACK:
                copy.wanted = max(copy.wanted, wanted)

    def due(self, lost: int, behind: bool) -> Iterator[tuple[Copy, int]]:
        """The events that get another size now, with that size. `lost`: lost hits so far, as the rings tell; `behind`:
        hits come faster than tracer processes them.
        """
        now = time.monotonic()
        if lost > self._lost or behind:
            self._lost, self._again = lost, now + self._calm_s
            if grown := [copy for copy in self._copies.values() if copy.size > FIRST]:
                self._calm_s *= _LONGER
                self._shrunk += 1
                yield from ((copy, FIRST) for copy in grown)
        elif now >= self._again:
            for copy in self._copies.values():
                size = copy.size
                while size < copy.wanted:
                    size *= 2
                if size > copy.size:
                    yield copy, min(size, perf.LARGEST_STACK)

    def changed(self, copy: Copy, size: int, begin: int, end: int) -> None:
        """Newer descriptors took the place of older ones between these moments."""
        self._grown += size > copy.size
        self._largest = max(self._largest, size)
        copy.size, copy.wanted, copy.marked = size, 0, not copy.marked
        copy.exchanges = [*copy.exchanges[1 - _KEPT :], _Exchange(begin, end, copy.marked)]

    def later(self) -> None:
        """Notes that it cannot be done now."""
        self._again = time.monotonic() + self._calm_s

    def told(self) -> Iterator[str]:
        """Lines for `-v`."""
        if self._grown:
            words = f"copies of stacks grew {_times(self._grown)}, to {self._largest} bytes"
            if self._shrunk:
                words += f", and became {FIRST} again {_times(self._shrunk)}, as more came than could be worked through"
            yield words


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
