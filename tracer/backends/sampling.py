"""Events that perf samples on a CPU, and what it says where it has none."""

from __future__ import annotations

import errno
import os

from tracer.errors import Diagnostic, ProgramError, Source, counted
from tracer.kernel import perf
from tracer.kinds.sampled import Sampled
from tracer.kinds.site import Site
from tracer.lang.typed import Clause

_NONE_SUCH = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP)
FORBIDDEN = dict.fromkeys(
    (errno.EPERM, errno.EACCES), "the kernel does not permit it (lockdown, a container without CAP_PERFMON)"
)
"""The remedy by the error."""


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
    return sum(kind == perf.RECORD_THROTTLE for kind, _, _ in perf.records(data))


def held_back(times: int) -> str:
    """The sentence about samples that the kernel did not take."""
    return (
        f"the kernel stopped sampling {counted(times, 'time')}, each until the next tick, as samples came too fast"
        " (kernel.perf_event_max_sample_rate): ask for fewer"
    )


def unsampled(hits: int, others: bool) -> str:
    """The sentence about hits that the kernel counted, and neither sampled nor lost; `others`: whoever made them.

    Seen on Linux 6.18, in a virtual machine: `irq:irq_handler_entry` on a processor but the first, where the idle task
    is interrupted, at 200 of 206.
    """
    whom = "it" if hits == 1 else "them"
    return (
        f"{counted(hits, 'hit')} left out{', of any process' * others}: the kernel counted {whom} and gave no sample,"
        f" as where a processor idles; --backend bcc sees {whom}"
    )


def refused(error: OSError, site: Sampled, clause: Clause, source: Source) -> ProgramError:
    """The error, under its attach point, for an event that the kernel does not open."""
    code = error.errno or 0
    said, hint = os.strerror(code), FORBIDDEN.get(code)
    if code in _NONE_SUCH and site.counts_in_hardware:
        said = f"this machine shows the kernel no counters of the processor ({said})"
        hint = "profile:hz:99 samples by a clock of the kernel"
    return at_point(f"{site.shown} cannot be sampled: {said}", hint, site, clause, source)


def at_point(message: str, hint: str | None, site: Site, clause: Clause, source: Source) -> ProgramError:
    """The error under the attach point of a site."""
    return ProgramError(source, [Diagnostic(message, clause.spans[site.point], hint)], exit_code=1)
