"""The table of all kinds of probes, by name and by spelling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tracer.kinds.model import AttachKind, AttachPoint, ProbeKind
from tracer.kinds.timers import BEGIN, END, HARDWARE, INTERVAL, PROFILE, SELF, SOFTWARE, WATCHPOINT
from tracer.kinds.tracepoint import TRACEPOINT
from tracer.kinds.uprobe import CALL, UPROBE, URETPROBE
from tracer.kinds.usdt import USDT

if TYPE_CHECKING:
    from tracer.kinds.site import Site

KINDS: Final[dict[AttachKind, ProbeKind]] = {
    kind.name: kind
    for kind in (
        USDT, UPROBE, URETPROBE, CALL, TRACEPOINT, PROFILE, SOFTWARE, HARDWARE, WATCHPOINT, INTERVAL, SELF, BEGIN, END,
    )
}
KINDS_OF_SITES: Final[dict[str, ProbeKind]] = {place: kind for kind in KINDS.values() for place in kind.places}
"""By what `Site.kind` says."""

SPELLINGS: Final[dict[str, ProbeKind]] = {word: kind for kind in KINDS.values() for word in kind.spellings}


def alone(points: Sequence[AttachPoint]) -> tuple[Site, ...]:
    """The sites that attach points of a clause are by themselves: those of kinds that look for none in files."""
    makers = ((KINDS[point.kind].alone, point) for point in points)
    return tuple([make(point).of_point(number) for number, (make, point) in enumerate(makers) if make is not None])


def kind_of(site: Site) -> ProbeKind:
    """The kind of probe that a site belongs to."""
    return KINDS_OF_SITES[site.kind]


def is_return(point: AttachPoint) -> bool:
    """Whether an attach point means the returns of functions, or calls to their ends."""
    return KINDS[point.kind].ends


def awaits_files(point: AttachPoint) -> bool:
    """Whether an attach point also means files that processes map later."""
    return KINDS[point.kind].sites is not None and point.names_no_file


def named(reads: str = "") -> str:
    """Every kind, or those whose clauses may read that (`ProbeKind.reads`), in words: `usdt, uprobe or uretprobe`."""
    *names, last = [kind.spellings[0] for kind in KINDS.values() if not reads or reads in kind.reads]
    return f"{', '.join(names)} {'or' if reads else 'and'} {last}" if names else last
