"""The layout of samples.

A record is `struct perf_event_header` and then, in this order, what the sample type asks for: pid and tid, time, CPU,
what a read of the descriptor tells, call chain, raw data, registers, stack (perf_event_open(2)). The raw data is the
event as its tracefs `format` file describes it. Here it becomes a flat *sample*, a tuple with these items:

    record type, misc, size, pid, tid, time [, cpu, 0] [, count, descriptor [, lost]], event id, the event's fields …,
    resolved values …

*Resolved* are the values that take more than unpacking: strings, guarded numbers, call chains. Fields of an event
without any of these are unpacked by `struct` alone, many records at a time.

The raw data of what is no trace event is zeros, so the number of the descriptor tells which it is. It stands by itself
too (PERF_SAMPLE_ID), but there Linux 6.18 writes the same number for all events that count one thing, where they are
sampled at one hit (do_perf_sw_event uses one perf_sample_data for all).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.dataclass import dataclass
from tracer.kernel import perf

Sample = tuple[Any, ...]

Bytes = bytes | memoryview
"""Bytes of a ring. Samples with copies of stacks are not copied again."""

Near = Callable[..., bool]
"""Whether one of some threads may be traced."""

MISC, PID, TID, TIME, CPU = 1, 3, 4, 5, 6
"""The places of these in a sample."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The part that every sample of a session carries beside its fields: the CPU, the call chain as the kernel walks it
    by frame pointers. Behind the fields those of clauses that want stacks have the registers in the mask `registers`,
    unless it is 0, and a copy of the stack. `told`: the words that a read of the descriptor tells, where there are
    others than trace events; else 0.
    """

    cpu: bool
    callchain: bool
    registers: int = 0
    told: int = 0

    @property
    def sample_type(self) -> int:
        """The `sample_type` of `perf_event_attr`."""
        wanted = perf.SAMPLE_TID | perf.SAMPLE_TIME | perf.SAMPLE_RAW
        wanted |= perf.SAMPLE_READ if self.told else 0
        return wanted | (perf.SAMPLE_CPU if self.cpu else 0) | (perf.SAMPLE_CALLCHAIN if self.callchain else 0)

    @property
    def prefix(self) -> str:
        """Struct's codes up to the time, the CPU or what the descriptor tells."""
        return "=IHHIIQ" + ("II" if self.cpu else "") + "Q" * self.told

    @property
    def event(self) -> int:
        """The place of the event's number in a sample; the fields follow."""
        return (8 if self.cpu else 6) + self.told

    @property
    def descriptor(self) -> int:
        """Where in a record the number of its descriptor is, in bytes."""
        return 40 if self.cpu else 32
