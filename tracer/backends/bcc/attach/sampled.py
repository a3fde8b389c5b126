"""What is sampled on CPUs, on the BCC backend: a program at a perf event on each CPU, whichever task runs there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.bcc.attach.model import Attaching, Job, Work
from tracer.backends.bcc.codegen import c
from tracer.backends.bcc.codegen.function import CFunction
from tracer.backends.sampling import attributes, held_back, refused, throttles
from tracer.kernel import bpf, perf
from tracer.kernel.trials.instructions import Stopped
from tracer.kinds.site import Site
from tracer.steps.values import Name

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.kinds.sampled import Sampled


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


class _Attached(Work):
    def __init__(self, attaching: Attaching) -> None:
        super().__init__(attaching)
        self._rings: dict[int, perf.Ring] = {}
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
                        perf.enable(event)
                    else:
                        perf.attach(event, job.program)
                except OSError as error:
                    raise refused(error, sampled, job.probe.clause, self.attaching.plan.program.source) from error


class _Samples:
    """See `attach.model.Attacher`. The kernel runs the programs of events that began last first."""

    in_order = False
    cookies = True
    context = _Interrupted()
    begin = _Attached

    def load(
        self, code: bytes, name: str, sleepable: bool, multi: bool, functions: Sequence[int], explained: bool
    ) -> int:
        return bpf.program_load(code, name, kind=bpf.PERF_EVENT, functions=functions, explained=explained)

    def cost(self, sites: Sequence[Site], costs: HitCosts) -> Cost | None:
        from tracer.kernel.trials.hit_cost import Cost  # where the overhead guard asks

        return Cost(1000.0, "it is a sample")


SAMPLES = _Samples()
