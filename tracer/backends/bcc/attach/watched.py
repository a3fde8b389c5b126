"""What the processor watches, on the BCC backend: a program at a breakpoint of perf in each thread of the processes,
which the threads that they start inherit with it.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.bcc.attach.model import Attaching, Job, Work
from tracer.backends.bcc.attach.sampled import SAMPLES
from tracer.backends.watching import address_in, attributes, hit_cost, inherited, nobody, refused, unplaced
from tracer.errors import TracerError
from tracer.host.stat import threads_of
from tracer.kernel import perf
from tracer.kernel.trials.instructions import Stopped
from tracer.kinds.site import Site

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.kinds.watched import Watched

_ATTEMPTS = 50


_TOLD = perf.SAMPLE_TID | perf.SAMPLE_READ
"""With these Linux from 6.12 on lets no two threads swap events that one has inherited from the other (7e8b255650fc).
Else those of a thread go with another that has swapped with it and ends (seen on 6.18: of two that watch one variable
one saw nothing any more).
"""


class _Attached(Work):
    def __init__(self, attaching: Attaching) -> None:
        super().__init__(attaching)
        self._events: list[int] = []

    def attached(self) -> None:
        """All see the same hits."""
        for event in self._events:
            perf.enable(event)

    def attach(self, job: Job) -> None:
        source, clause = self.attaching.plan.program.source, job.probe.clause
        for site, _ in job.sites:
            watched = cast("Watched", site)
            if not self.attaching.processes:
                raise nobody(watched, clause, source)
            sites = 1
            for pid in self.attaching.processes:
                try:
                    address = address_in(watched, pid)
                except TracerError as error:
                    raise unplaced(error, watched, clause, source) from None
                try:
                    events = self._opened(watched, pid, address, job.program)
                except OSError as error:
                    raise refused(error, watched, address, clause, source) from error
                for event in events:
                    self.attaching.held.append((event, job.point, sites))
                    sites = 0
                self._events += events

    def _opened(self, site: Watched, pid: int, address: int, program: int) -> list[int]:
        """The events of a process, disabled. Raises `OSError`.

        A thread inherits an event with the program that it has then. One that comes before it has one runs none, so
        where threads have come meanwhile, all begins anew.
        """
        watcher = self.attaching.watcher
        flags = inherited(self.attaching.plan.follow)
        for attempt in range(_ATTEMPTS):
            if self.attaching.stop():
                raise Stopped
            threads = threads_of(pid)
            calls = [perf.event_call(attributes(site, address, _TOLD, flags=flags), thread, -1) for thread in threads]
            answers = watcher.open(calls, passing=[errno.ESRCH])
            events = [answer for answer in answers if answer >= 0]
            try:
                if (last := answers[-1] if answers else -errno.ESRCH) < 0 and (last != -errno.ESRCH or not events):
                    raise OSError(-last, os.strerror(-last))
                for event in events:
                    perf.set_program(event, program)
                if set(threads_of(pid)) <= set(threads):
                    return events
            except BaseException:
                watcher.close(events)
                raise
            watcher.close(events)
            time.sleep(0.0005 * attempt)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class _Watches:
    """See `attach.model.Attacher`. A breakpoint interrupts, as a sample does."""

    in_order = False
    cookies = False
    context = SAMPLES.context
    load = SAMPLES.load
    begin = _Attached

    def cost(self, sites: Sequence[Site], costs: HitCosts) -> Cost | None:
        return hit_cost()


WATCHES = _Watches()
