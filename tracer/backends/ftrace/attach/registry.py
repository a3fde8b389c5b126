"""The attacher of each kind of probe."""

from __future__ import annotations

from tracer.backends.ftrace.attach.model import Attacher
from tracer.backends.ftrace.attach.tracepoint import TRACEPOINTS
from tracer.backends.ftrace.attach.uprobe import IN_FILES
from tracer.kinds.registry import KINDS_OF_SITES
from tracer.kinds.site import Site


def _of(place: str) -> Attacher:
    """By what `Site.kind` says."""
    kind = KINDS_OF_SITES[place]
    if kind.sites is not None:
        return IN_FILES
    if kind.machine is not None:
        return TRACEPOINTS
    from tracer.backends.ftrace.attach.sampled import SAMPLES, WATCHES  # loaded where there is one

    return SAMPLES if kind.watches is None else WATCHES


def attacher_of(site: Site) -> Attacher:
    """The attacher of a site."""
    return _of(site.kind)
