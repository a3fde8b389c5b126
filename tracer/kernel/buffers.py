"""The size of the memory that holds events on their way: a part of the machine's, or of what tracer's control group may
use, within bounds that do for any program.

What is between kernel and tracer is allocated at once and cannot be swapped out; what tracer has taken out of there
grows only while events come faster than they are shown, and shrinks again.
"""

from __future__ import annotations

import os
from functools import cache

_MIB = 1 << 20


def shared_ring(stacks: bool = False) -> int:
    """Bytes of one ring for all CPUs, a power of two: a 256th of the memory, from 256 KiB to a MiB for each CPU, but
    never kept below 16 MiB nor let above 64 MiB by their number; 64 MiB where copies of `stacks` come through it.
    """
    largest = 64 * _MIB if stacks else min(max(16, os.cpu_count() or 1), 64) * _MIB
    return _power_of_two(min(_memory() // 256, largest), _MIB // 4)


def ring_of_each(cpus: int, stacks: bool = False) -> int:
    """Bytes of each of as many rings, a power of two: 8 MiB, 64 MiB for samples with copies of `stacks`, and from
    128 KiB on less where all together would take more than a 32nd of the memory, or 256 MiB.
    """
    return _power_of_two(min(_memory() // 32, 256 * _MIB) // cpus, _MIB // 8, (64 if stacks else 8) * _MIB)


def waiting() -> int:
    """Bytes that tracer itself may hold: a 64th of the memory, from 16 MiB to 256 MiB."""
    return min(max(_memory() // 64, 16 * _MIB), 256 * _MIB)


@cache
def _memory() -> int:
    from tracer.host.tables.cgroups import memory_limit

    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    limit = memory_limit()
    return whole if limit is None else min(whole, limit[1])


def _power_of_two(wanted: int, smallest: int, largest: int = 1 << 62) -> int:
    """The largest power of two that is not above `wanted`, within bounds."""
    return min(max(1 << max(wanted, 1).bit_length() - 1, smallest), largest)
