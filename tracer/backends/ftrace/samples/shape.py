"""The layout of samples.

A record is `struct perf_event_header` and then, in this order, what the sample type asks for: pid and tid, time, number
of the descriptor, CPU, call chain, raw data, registers, stack (perf_event_open(2)). The raw data is the event as its
tracefs `format` file describes it; of what is no trace event it is zeros, so the descriptor tells which it is. Here it
becomes a flat *sample*, a tuple with these items:

    record type, misc, size, pid, tid, time [, descriptor] [, cpu, 0], event id, the event's fields …, resolved values …

*Resolved* are the values that take more than unpacking: strings, guarded numbers, call chains. Fields of an event
without any of these are unpacked by `struct` alone, many records at a time.
"""

from __future__ import annotations

from typing import Any

from tracer.dataclass import dataclass
from tracer.kernel import perf

Sample = tuple[Any, ...]

Bytes = bytes | memoryview
"""Bytes of a ring. Samples with copies of stacks are not copied again."""

PID, TID, TIME = 3, 4, 5
"""The places of these in a sample."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The part that every sample of a session carries beside its fields: the CPU, the call chain as the kernel walks it
    by frame pointers. Behind the fields those of clauses that want stacks have the registers in the mask `registers`,
    unless it is 0, and a copy of the stack. `identified`: it has the number of its descriptor, since there are others
    than trace events.
    """

    cpu: bool
    callchain: bool
    registers: int = 0
    identified: bool = False

    @property
    def sample_type(self) -> int:
        """The `sample_type` of `perf_event_attr`."""
        wanted = perf.SAMPLE_TID | perf.SAMPLE_TIME | perf.SAMPLE_RAW
        wanted |= perf.SAMPLE_ID if self.identified else 0
        return wanted | (perf.SAMPLE_CPU if self.cpu else 0) | (perf.SAMPLE_CALLCHAIN if self.callchain else 0)

    @property
    def prefix(self) -> str:
        """Struct's codes up to the time, the descriptor or the CPU."""
        return "=IHHIIQ" + ("Q" if self.identified else "") + ("II" if self.cpu else "")

    @property
    def event(self) -> int:
        """The place of the event's number in a sample; the fields follow."""
        return TIME + 1 + self.identified + 2 * self.cpu

    @property
    def cpu_place(self) -> int:
        """The place of the CPU."""
        return TIME + 1 + self.identified
