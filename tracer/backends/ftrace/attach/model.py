"""The attacher: it says how the sites of some kinds of probes become trace events, and what such an event carries."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

from tracer.kernel.uprobe_events.events import Fetch
from tracer.kinds.site import Operand, Site

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.kinds.sampled import Sampled
    from tracer.kinds.watched import Watched


class NotExpressible(Exception):
    """Why no fetch argument can read a value; `check` refuses what it knows, this the rest."""


class Attacher(Protocol):
    """The attacher of some kinds of probes.

    `triggers`: their events can have hist triggers. `thread_name` is the fetch argument that is the thread's name, None
    where an event does not carry it. `late`: a thread that has ended can still be in one. `counts`: what perf counts of
    an event is its hits. `unread`: why memory at an address cannot be read there; "" where it can.
    """

    triggers: bool
    late: bool
    counts: bool
    unread: str
    thread_name: Fetch | None

    def group(self, site: Site) -> Hashable:
        """The group of a site: sites of one group can be places of one trace event."""

    def kernel_event(self, site: Site) -> tuple[str, str] | None:
        """The system and name of the event where the kernel has it; None where it is to be defined."""

    def sampled(self, site: Site) -> tuple[Sampled | Watched, int] | None:
        """The site where it is no trace event at all, but something that perf samples, with a number that
        no trace event has; else None.
        """

    def fields(self, site: Site) -> Sequence[Fetch]:
        """The fields that an event at the site carries whatever is asked for, in the order of its layout."""

    def returned(self, site: Site, register: str) -> str:
        """The place of a return value, which at a return is in the `register`."""

    def number(self, operand: Operand, index: int, type: str) -> Fetch:
        """The fetch argument that is the value of `argN`. Raises `NotExpressible`."""

    def pointer(self, operand: Operand, index: int) -> str:
        """The place of `argN`, which is an address to read at. Raises `NotExpressible`."""

    def bytes(self, operand: Operand) -> tuple[Fetch, int | None]:
        """The field that holds an operand which the hit itself holds (`OwnOperand.held`). Where the field only says
        where the bytes are, from how far behind the record's start that is counted, else None.
        """

    def cost(self, sites: Sequence[Site], costs: HitCosts, sample_type: int) -> Cost | None:
        """The cost of a hit; None while that is being measured."""
