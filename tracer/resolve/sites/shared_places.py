"""Sites of a program that are one place: what they must have in common, and what cannot be told of their hits.

The kernel has one uprobe for each inode and offset, and that has one semaphore (kernel/events/uprobes.c, alloc_uprobe):
it refuses a second probe there with another semaphore, or with none. So of the sites that are one place the first that
has a semaphore speaks for all.

Two functions of one place are aliases (`open` and `open64` of libc), or what a linker folded into one since it is the
same code (`--icf`). A hit there is a hit of both. Nothing in the file tells these from those, so one that is named
alone is taken as it is; `usdt_sites` says it of notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tracer.dataclass import NamedTuple, replace
from tracer.errors import Diagnostic, TracerError, printable
from tracer.kinds.model import AttachPoint
from tracer.kinds.registry import KINDS
from tracer.kinds.site import FileSite
from tracer.lang.syntax.ast import Clause
from tracer.resolve.elf.file import Elf
from tracer.resolve.files.paths import is_pattern
from tracer.resolve.usdt.notes import linker_folds

_Sites = Mapping[int, tuple[FileSite, ...]]
"""The sites of each clause, by its index."""

_Place = tuple[int, int, int]


class _Named(NamedTuple):
    """A function by the name that the user means it by."""

    name: str
    clause: int
    point: AttachPoint
    path: str


def joined(sites: _Sites) -> dict[int, tuple[FileSite, ...]]:
    """The sites, those of one place with one semaphore."""
    first: dict[_Place, FileSite] = {}
    for clause_sites in sites.values():
        for site in clause_sites:
            if site.semaphore is not None:
                first.setdefault(site.place, site)
    return {
        index: tuple([_with_semaphore(site, first) for site in clause_sites]) for index, clause_sites in sites.items()
    }


def told_apart(clauses: Sequence[Clause], sites: _Sites) -> list[Diagnostic]:
    """The warnings about functions of different names whose hits are those of one place: each pair once."""
    here: dict[tuple[_Place, str, int], list[_Named]] = {}
    for index, clause_sites in sites.items():
        points = clauses[index].points
        by_function = [
            point.name is not None and not (point.by_line or KINDS[point.kind].has_notes) for point in points
        ]
        for site in clause_sites:
            if by_function[site.point] and not site.copy:  # a copy may begin with the function that holds it
                point = points[site.point]
                # A return that tail calls lead to is told by the function whose call it was.
                key = site.place, point.kind, site.tail >> 8
                here.setdefault(key, []).append(_Named(site.function, index, point, site.path))
    warnings: dict[tuple[str, str], Diagnostic] = {}
    for named in here.values():
        first = named[0]
        for other in named[1:]:
            if other.name != first.name and _both_meant(first, other):
                warnings.setdefault((first.name, other.name), _warning(first, other))
    return list(warnings.values())


def _with_semaphore(site: FileSite, first: Mapping[_Place, FileSite]) -> FileSite:
    of = first.get(site.place)
    if of is None or of.semaphore == site.semaphore:
        return site
    return replace(site, semaphore=of.semaphore, semaphore_address=of.semaphore_address)


def _both_meant(one: _Named, other: _Named) -> bool:
    """Whether the user wants to tell them apart, or would count one hit twice. A wildcard means each function by any of
    its names.
    """
    named = not (is_pattern(one.point.name or "") or is_pattern(other.point.name or ""))
    return named or one.clause == other.clause


def _warning(one: _Named, other: _Named) -> Diagnostic:
    names = f"{printable(one.name)} and {printable(other.name)}"
    why = "the linker made them one place, or one is an alias" if _folds(one.path) else "they are names of one place"
    message = f"hits of {names} cannot be told apart: {why}"
    return Diagnostic(message, other.point.span, "each counts for both", "warning")


def _folds(path: str) -> bool:
    try:
        with Elf(path) as elf:
            return linker_folds(elf)
    except TracerError:  # it has gone since
        return False


def each_once(sites: list[FileSite]) -> list[FileSite]:
    """Keeps one site for each place. Where two attach points mean a place, it belongs to the one that means fewer
    places.
    """
    meant = Counter(site.point for site in sites)
    kept: dict[object, FileSite] = {}
    for site in sites:
        key = (site.kind, site.place, site.probe)
        if meant[kept.setdefault(key, site).point] > meant[site.point]:
            kept[key] = site
    return list(kept.values())
