"""The attacher of each kind of probe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tracer.backends.bcc.attach.model import Attacher
from tracer.backends.bcc.attach.tracepoint import TRACEPOINTS
from tracer.backends.bcc.attach.uprobe import IN_FILES
from tracer.backends.bcc.codegen.function import Context
from tracer.kinds.site import Site
from tracer.kinds.timers import HARDWARE, PROFILE, SOFTWARE, WATCHPOINT
from tracer.kinds.tracepoint import TRACEPOINT
from tracer.kinds.uprobe import UPROBE, URETPROBE
from tracer.kinds.usdt import USDT
from tracer.plan.model import Variant

ATTACHERS: Final[dict[str, Attacher]] = {
    **{place: IN_FILES for kind in (USDT, UPROBE, URETPROBE) for place in kind.places},
    **dict.fromkeys(TRACEPOINT.places, TRACEPOINTS),
}
"""By what `Site.kind` says, but for what is sampled."""

_SAMPLED: Final = frozenset(place for kind in (PROFILE, SOFTWARE, HARDWARE) for place in kind.places)


_WATCHED: Final = frozenset(WATCHPOINT.places)


def _of(place: str) -> Attacher:
    if place in _WATCHED:
        from tracer.backends.bcc.attach.sampled import WATCHES

        return WATCHES
    if place not in _SAMPLED:
        return ATTACHERS[place]
    from tracer.backends.bcc.attach.sampled import SAMPLES  # loaded where there is one

    return SAMPLES


def attacher_of(sites: Sequence[Site]) -> Attacher:
    """The attacher of sites, which are of one sort."""
    return _of(sites[0].kind)


def context_of(variant: Variant) -> Context:
    """The context that the C function of a variant is given."""
    return attacher_of(variant.sites).context
