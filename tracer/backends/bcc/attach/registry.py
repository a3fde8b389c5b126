"""The attacher of each kind of probe."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.bcc.attach.model import Attacher
from tracer.backends.bcc.attach.tracepoint import TRACEPOINTS
from tracer.backends.bcc.attach.uprobe import IN_FILES
from tracer.backends.bcc.codegen.function import Context
from tracer.kinds.registry import KINDS_OF_SITES
from tracer.kinds.site import Site
from tracer.plan.model import Variant


def _of(place: str) -> Attacher:
    """By what `Site.kind` says."""
    kind = KINDS_OF_SITES[place]
    if kind.sites is not None:
        return IN_FILES
    if kind.machine is not None:
        return TRACEPOINTS
    from tracer.backends.bcc.attach.sampled import SAMPLES, WATCHES  # loaded where there is one

    return SAMPLES if kind.watches is None else WATCHES


def attacher_of(sites: Sequence[Site]) -> Attacher:
    """The attacher of sites, which are of one sort."""
    return _of(sites[0].kind)


def context_of(variant: Variant) -> Context:
    """The context that the C function of a variant is given."""
    return attacher_of(variant.sites).context
