"""The attacher of each kind of probe."""

from __future__ import annotations

from typing import Final

from tracer.backends.ftrace.attach.model import Attacher
from tracer.backends.ftrace.attach.tracepoint import TRACEPOINTS
from tracer.backends.ftrace.attach.uprobe import IN_FILES
from tracer.kinds.site import Site
from tracer.kinds.timers import HARDWARE, PROFILE, SOFTWARE, WATCHPOINT
from tracer.kinds.tracepoint import TRACEPOINT
from tracer.kinds.uprobe import UPROBE, URETPROBE
from tracer.kinds.usdt import USDT

ATTACHERS: Final[dict[str, Attacher]] = {
    **{place: IN_FILES for kind in (USDT, UPROBE, URETPROBE) for place in kind.places},
    **dict.fromkeys(TRACEPOINT.places, TRACEPOINTS),
}
"""By what `Site.kind` says, but for what is sampled."""

_SAMPLED: Final = frozenset(place for kind in (PROFILE, SOFTWARE, HARDWARE) for place in kind.places)


_WATCHED: Final = frozenset(WATCHPOINT.places)


def _of(place: str) -> Attacher:
    if place in _WATCHED:
        from tracer.backends.ftrace.attach.sampled import WATCHES

        return WATCHES
    if place not in _SAMPLED:
        return ATTACHERS[place]
    from tracer.backends.ftrace.attach.sampled import SAMPLES  # loaded where there is one

    return SAMPLES


def attacher_of(site: Site) -> Attacher:
    """The attacher of a site."""
    return _of(site.kind)
