"""Events that perf samples on a CPU, and what it says where it has none."""

from __future__ import annotations

import errno
import os
import struct

from tracer.errors import Diagnostic, ProgramError, Source, counted
from tracer.kernel import perf
from tracer.kinds.sampled import Sampled
from tracer.lang.typed import Clause

_HEADER = struct.Struct("=IHH")
_NONE_SUCH = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
_FORBIDDEN = (errno.EPERM, errno.EACCES)


def attributes(
    site: Sampled, sample_type: int = 0, read_format: int = 0, flags: int = perf.DISABLED, clock: int | None = None,
    max_stack: int = 0,
) -> perf.Attributes:  # fmt: skip
    """The attributes of an event on one CPU, which is opened disabled. `flags`: others than that."""
    return perf.Attributes(
        site.type, site.config, sample_type, read_format, flags | perf.DISABLED, 0, clock, max_stack, period=site.period
    )


def throttles(data: bytes) -> int:
    """Counts how often the kernel stopped an event for the rest of a tick, by the records of a ring."""
    stopped = position = 0
    while position + _HEADER.size <= len(data):
        kind, _, size = _HEADER.unpack_from(data, position)
        stopped += kind == perf.RECORD_THROTTLE
        position += max(size, _HEADER.size)
    return stopped


def held_back(times: int) -> str:
    """The sentence about samples that the kernel did not take."""
    return (
        f"the kernel stopped sampling {counted(times, 'time')}, each until the next tick, as samples came too fast"
        " (kernel.perf_event_max_sample_rate): ask for fewer"
    )


def refused(error: OSError, site: Sampled, clause: Clause, source: Source) -> ProgramError:
    """The error, under its attach point, for an event that the kernel does not open."""
    code = error.errno or 0
    said, hint = os.strerror(code), None
    if code in _NONE_SUCH and site.counts_in_hardware:
        said = f"this machine shows the kernel no counters of the processor ({said})"
        hint = "profile:hz:99 samples by a clock of the kernel"
    elif code in _FORBIDDEN:
        hint = "the kernel does not permit it (lockdown, a container without CAP_PERFMON)"
    point = clause.spans[site.point]
    diagnostics = [Diagnostic(f"{site.shown} cannot be sampled: {said}", point, hint)]
    return ProgramError(source, diagnostics, exit_code=1)
