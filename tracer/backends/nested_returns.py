"""Returns that the kernel did not see, counted.

It follows 64 return probes inside each other in a thread (MAX_URETPROBE_DEPTH). Of a call that is nested deeper it
says so in its log, ten times in five seconds at most, and counts nothing. So where functions may be nested, calls are
counted beside returns: by a second probe on the same breakpoint, which costs some 0.1 us a hit. What is missing at the
end was passed over, or ended otherwise than by a return, or is under way; where the log says nothing it was not the
first.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tracer.kinds.site import Spot

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite
    from tracer.plan.model import Plan, ProbePlan

MOST_NESTED = 64

_INTERVAL_NS, _BURST = 5_000_000_000, 10
_DRIFT = 1000
"""The clock of the log differs from ours by no more than this part of the time since boot."""

_FIRST_NAMESPACE = 0xEFFFFFFC
"""The inode of the pid namespace in whose numbers the log speaks (PROC_PID_INIT_INO)."""


def counted(plan: Plan, left_out: Collection[Spot] = ()) -> Iterator[tuple[ProbePlan, list[FileSite], list[FileSite]]]:
    """The places of return probes whose calls and returns are to be counted, each once, by clause: as places of calls,
    and of returns. None where no more than 64 can ever be inside each other.
    """
    sites = {site.spot: site for site in plan.places if site.is_return_probe}
    if len(sites) <= MOST_NESTED and not any(site.nests for site in sites.values()):
        return
    for probe in plan.probes:
        places = [site for variant in probe.variants for site in variant.places if site.is_return_probe]
        returns = [site for site in places if site.spot not in left_out and site is sites.get(site.spot)]
        if returns:
            yield probe, [site.of_calls for site in returns], returns


def is_once(plan: Plan) -> bool:
    """Whether each place has a single clause, and none of these has probes on `ret` beside: what counts the hits of
    attach points then counts the returns.
    """
    clauses = [[site for variant in probe.variants for site in variant.places] for probe in plan.probes]
    mixed = any(any(s.is_return_probe for s in sites) and any(s.is_at_return for s in sites) for sites in clauses)
    places = [site.spot for site in plan.places if site.is_return_probe]
    return len(set(places)) == len(places) and not mixed


class Nested:
    """The question of a session at its end; made when it begins to attach."""

    def __init__(self, pids: Sequence[int]) -> None:
        """`pids`: the traced processes, () where that may be any."""
        self._pids = pids
        self._since = time.monotonic_ns()
        self._count: int | None = None

    def lost(self, calls: int | None, returns: int) -> int:
        """The number of returns that were not seen, once nothing is attached any more; -1 for some where `calls` is
        None, since they could not be counted.
        """
        if self._count is None:
            missing = -1 if calls is None else max(calls - returns, 0)
            self._count = missing if missing and self._passed_over() else 0
        return self._count

    def _passed_over(self) -> bool:
        """Whether the kernel may have passed over any. What its log leaves out has at least ten lines before it."""
        try:
            lines = list(_log())
            own_numbers = os.stat("/proc/self/ns/pid").st_ino == _FIRST_NAMESPACE
        except OSError:
            return True
        since = self._since - _INTERVAL_NS - self._since // _DRIFT
        passed = [process for moment, process in lines if moment >= since]
        if not self._pids or not own_numbers or len(passed) >= _BURST:
            return bool(passed)
        return not {*self._pids}.isdisjoint(passed)


def _log() -> Iterator[tuple[int, int]]:
    """The moments at which it was said that a call was passed over (ns since boot, about), and the process. Raises
    `OSError`.
    """
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while True:
            try:
                record = os.read(log, 1 << 13)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # overwritten meanwhile: the next one follows
            match = re.match(rb"\d+,\d+,(\d+),[^;]*;uprobe: omit uretprobe .* pid/tgid=\d+/(\d+)", record)
            if match is not None:
                yield 1000 * int(match[1]), int(match[2])
    finally:
        os.close(log)
