"""The attacher of each kind of probe."""

from __future__ import annotations

from typing import Final

from tracer.backends.ftrace.attach.model import Attacher
from tracer.backends.ftrace.attach.tracepoint import TRACEPOINTS
from tracer.backends.ftrace.attach.uprobe import IN_FILES
from tracer.kinds.site import Site
from tracer.kinds.tracepoint import TRACEPOINT
from tracer.kinds.uprobe import UPROBE, URETPROBE
from tracer.kinds.usdt import USDT

ATTACHERS: Final[dict[str, Attacher]] = {
    **{place: IN_FILES for kind in (USDT, UPROBE, URETPROBE) for place in kind.places},
    **dict.fromkeys(TRACEPOINT.places, TRACEPOINTS),
}
"""By what `Site.kind` says."""


def attacher_of(site: Site) -> Attacher:
    """The attacher of a site."""
    return ATTACHERS[site.kind]
