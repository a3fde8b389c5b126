"""What is sampled or watched, on the BCC backend: a program at an event of perf. What is sampled has one on each CPU,
whichever task runs there; memory has a breakpoint in each thread of the processes, which the threads that they start
inherit with it.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.bcc.attach.model import Attaching, Job, Work
from tracer.backends.bcc.codegen import c
from tracer.backends.bcc.codegen.function import CFunction
from tracer.backends.sampling import attributes, held_back, refused, throttles
from tracer.backends.watching import (
    address_in,
    attributes as of_memory,
    hit_cost,
    inherited,
    nobody,
    refused as not_watched,
    unplaced,
)
from tracer.errors import TracerError
from tracer.host.stat import threads_of
from tracer.kernel import bpf, perf
from tracer.kernel.trials.instructions import Stopped
from tracer.kinds.site import Site
from tracer.steps.values import Name

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.kinds.sampled import Sampled
    from tracer.kinds.watched import Watched


_RING = 1 << 16
"""Bytes of a ring for what the kernel says of an event: of a thousand times that it was stopped."""


class _Interrupted:
    """The context of a program there: the registers of what was interrupted, be it the kernel. See
    `codegen.function.Context`.
    """

    struct = "pt_regs"
    result = 0
    stopped = True

    def argument(self, function: CFunction, index: int, name: Name) -> c.C:
        raise AssertionError("a sample has no arguments")

    def held_bytes(self, function: CFunction, index: int) -> c.C | None:
        return None


class _Attached(Work):
    def __init__(self, attaching: Attaching) -> None:
        super().__init__(attaching)
        self._rings: dict[int, perf.Ring] = {}
        self._disabled: list[int] = []
        self._throttled = 0

    def keep_up(self) -> None:
        """See `Work`: in these rings there is what the kernel says of the events, and no sample."""
        self._throttled += sum(throttles(ring.take()) for ring in self._rings.values() if ring.has_data)

    def closing(self, descriptors: Collection[int]) -> None:
        self.keep_up()
        for event in self._rings.keys() & set(descriptors):
            self._rings.pop(event).unmap()

    @property
    def missed(self) -> Sequence[str]:
        return [held_back(self._throttled)] if self._throttled else []

    def attached(self) -> None:
        """All begin together: of two clauses the first one has the first sample, as it has every other."""
        for event in reversed(self._disabled):
            perf.enable(event)
        self._disabled.clear()

    def attach(self, job: Job) -> None:
        watcher, held = self.attaching.watcher, self.attaching.held
        for site, cookie in job.sites:
            sampled = cast("Sampled", site)
            for number, cpu in enumerate(perf.online_cpus()):
                if self.attaching.stop():
                    raise Stopped
                try:
                    event = watcher.open_one(perf.event_call(attributes(sampled), -1, cpu))
                    held.append((event, job.point, int(number == 0)))
                    self._rings[event] = perf.Ring.over(event, _RING)
                    if self.attaching.multi:
                        held.append((watcher.open_one(bpf.link_event(job.program, event, cookie)), job.point, 0))
                    else:
                        perf.set_program(event, job.program)
                    self._disabled.append(event)
                except OSError as error:
                    raise refused(error, sampled, job.probe.clause, self.attaching.plan.program.source) from error


class _Samples:
    """See `attach.model.Attacher`. The kernel runs the programs of events that were opened last first where something
    happens, and of clocks with one period those that were enabled first (seen on Linux 6.18).
    """

    in_order = False
    cookies = True
    context = _Interrupted()
    begin = _Attached

    def sleeps(self, sites: Sequence[Site]) -> bool:
        return False

    def load(
        self, code: bytes, name: str, sleepable: bool, multi: bool, functions: Sequence[int], explained: bool
    ) -> int:
        return bpf.program_load(code, name, kind=bpf.PERF_EVENT, functions=functions, explained=explained)

    def cost(self, sites: Sequence[Site], costs: HitCosts) -> Cost | None:
        from tracer.kernel.trials.hit_cost import Cost  # where the overhead guard asks

        return Cost(1000.0, "it is a sample")


SAMPLES = _Samples()

_ATTEMPTS = 50


_TOLD = perf.SAMPLE_TID | perf.SAMPLE_READ
"""With these Linux from 6.12 on lets no two threads swap events that one has inherited from the other (7e8b255650fc).
Else those of a thread go with another that has swapped with it and ends (seen on 6.18: of two that watch one variable
one saw nothing any more).
"""


class _AttachedWatches(Work):
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
                    raise not_watched(error, watched, address, clause, source) from error
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
            calls = [perf.event_call(of_memory(site, address, _TOLD, flags=flags), thread, -1) for thread in threads]
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
    begin = _AttachedWatches

    def sleeps(self, sites: Sequence[Site]) -> bool:
        return False

    def cost(self, sites: Sequence[Site], costs: HitCosts) -> Cost | None:
        return hit_cost()


WATCHES = _Watches()
