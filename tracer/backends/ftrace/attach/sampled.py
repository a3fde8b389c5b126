"""What is sampled on CPUs, on the ftrace backend: an event of perf, and no trace event."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, cast

from tracer.kernel.uprobe_events.events import Fetch
from tracer.kinds.site import Operand, Site, Spot

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.kinds.sampled import Sampled
    from tracer.kinds.watched import Watched

_TRACE_EVENTS = 1 << 16
"""The numbers of trace events are below."""


class _Samples:
    """See `attach.model.Attacher`."""

    triggers = False
    late = False
    counts = False
    thread_name: Fetch | None = None
    unread = "a sample holds no memory of the program"

    def __init__(self) -> None:
        self._numbers: dict[Spot, int] = {}

    def group(self, site: Site) -> Hashable:
        return site.spot

    def kernel_event(self, site: Site) -> tuple[str, str] | None:
        return None

    def sampled(self, site: Site) -> tuple[Sampled | Watched, int]:
        return cast("Sampled | Watched", site), self._numbers.setdefault(site.spot, _TRACE_EVENTS + len(self._numbers))

    def fields(self, site: Site) -> Sequence[Fetch]:
        return ()

    def returned(self, site: Site, register: str) -> str:
        return ""

    def number(self, operand: Operand, index: int, type: str) -> Fetch:
        raise AssertionError("a sample has no arguments")

    def pointer(self, operand: Operand, index: int) -> str:
        raise AssertionError("a sample has no arguments")

    def bytes(self, operand: Operand) -> tuple[Fetch, int | None]:
        raise AssertionError("a sample has no arguments")

    def cost(self, sites: Sequence[Site], costs: HitCosts, sample_type: int) -> Cost | None:
        from tracer.kernel.trials.hit_cost import Cost  # where the overhead guard asks

        return Cost(1000.0, "it is a sample")


class _Watches(_Samples):
    """Memory that the processor watches: an event of perf in each thread, whose numbers are no other sample's."""

    def __init__(self, beside: _Samples) -> None:
        self._numbers = beside._numbers

    def cost(self, sites: Sequence[Site], costs: HitCosts, sample_type: int) -> Cost | None:
        from tracer.backends.watching import hit_cost  # where the overhead guard asks

        return hit_cost()


SAMPLES = _Samples()
WATCHES = _Watches(SAMPLES)
