"""The attacher: it says how the sites of some kinds of probes become trace events, and what such an event carries; and
why events could not be opened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Protocol

from tracer.errors import WANTING, TracerError
from tracer.kernel.limits import COLLISION, ONE_SEMAPHORE
from tracer.kernel.trials.instructions import NOT_PROBED, REMEDY
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


class ProcessEnded(TracerError):
    """The process to trace is no more."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"process {pid} has ended")


class NeedsSamples(Exception):
    """Counters cannot do here what samples can."""


class CannotOpen(TracerError):
    """A call was refused, perf_event_open where the error names none; `number` is the event's among the openings, None
    where it was about no event.
    """

    def __init__(self, error: OSError, number: int | None = None) -> None:
        code = error.errno or 0
        words = "not supported" if code in NOT_PROBED else COLLISION if code == errno.EINVAL else os.strerror(code)
        call = getattr(error, "call", "perf_event_open")
        message = f"the kernel refused to read a probe ({call}): {words}"
        super().__init__(message, _HINTS.get(code, "--backend bcc reads it in another way"))
        self.number, self.code = number, code


_HINTS = {
    **dict.fromkeys(NOT_PROBED, REMEDY),
    errno.EACCES: "it needs root or CAP_PERFMON; try: sysctl kernel.perf_event_paranoid=1",
    errno.EPERM: "it needs root or CAP_PERFMON, and kernel lockdown forbids it",
    errno.ENOSYS: "this kernel is built without CONFIG_PERF_EVENTS, or a seccomp filter forbids perf_event_open",
    **WANTING,
    errno.EINVAL: ONE_SEMAPHORE,
    errno.EIO: "the kernel could not place the breakpoint: choose another place (see dmesg)",
}
