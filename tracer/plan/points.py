"""The attach points of a plan: what the user wrote, each of which can be hit too often and be detached by itself.

They are numbered through the whole plan, in the order of the program.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tracer.dataclass import dataclass
from tracer.errors import Span
from tracer.kinds.site import FileSite, Site, in_files
from tracer.lang.typed import (
    Aggregate,
    Clause,
    Clear,
    Delete,
    Deleted,
    ExprStmt,
    Find,
    ForMap,
    HasKey,
    MapAdd,
    MapGet,
    MapIncr,
    MapLen,
    MapSet,
    Zero,
)
from tracer.lang.walk import walk_clause
from tracer.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Point:
    """An attach point as written, where it stands, and its sites (those of an earlier one of its clause left out)."""

    clause: Clause
    text: str
    span: Span
    sites: tuple[Site, ...]

    @property
    def places(self) -> Sequence[FileSite]:
        """The sites that are places in files: all, or () where they are of another sort."""
        return in_files(self.sites)


def ended(point: Point, hits: int, open_calls: Sequence[str]) -> int:
    """How often an attach point had a hit, or where it is of calls, one that has ended: it was hit twice in each, and
    once in those of the `open_calls` (by their functions) that are of it.
    """
    if point.clause.written is None or point.clause.closes:
        return hits
    functions = {site.function for site in point.places}
    return (hits - sum([function in functions for function in open_calls])) // 2


def points(plan: Plan) -> tuple[Point, ...]:
    """All attach points of probes; those of calls with the sites of their beginnings and of their ends."""
    numbers = first_numbers(plan)
    sites: list[list[Site]] = [[] for _ in range(count(plan))]
    for probe in plan.probes:
        first = numbers[probe.clause.id]
        for variant in probe.variants:
            for site in variant.sites:
                sites[first + site.point].append(site)
    clauses = [probe.clause for probe in plan.probes if probe.clause.ends is None]
    named = ((clause, text, span) for clause in clauses for text, span in zip(clause.names, clause.spans, strict=True))
    return tuple([Point(*words, tuple(point_sites)) for words, point_sites in zip(named, sites, strict=True)])


def count(plan: Plan) -> int:
    """The number of the attach points of probes."""
    return sum([len(probe.clause.names) for probe in plan.probes if probe.clause.ends is None])


def alone_of(plan: Plan, gone: Collection[int], of: Collection[int]) -> list[FileSite]:
    """The places in files of attach points (`of`, by their numbers) where all attach points are `gone`."""
    every = points(plan)
    there = {site.place for number, point in enumerate(every) if number not in gone for site in point.places}
    return [site for number in of for site in every[number].places if site.place not in there]


def first_numbers(plan: Plan) -> dict[int, int]:
    """The number of the first attach point of each probe clause, by the clause's id; `Site.point` adds to it."""
    numbers: dict[int, int] = {}
    following = 0
    for probe in plan.probes:
        if probe.clause.ends is not None:
            numbers[probe.clause.id] = numbers[probe.clause.ends]
            continue
        numbers[probe.clause.id] = following
        following += len(probe.clause.names)
    return numbers


def maps_behind(plan: Plan, clause: Clause) -> tuple[str, ...]:
    """The maps that lack something when a clause no longer runs at all its sites: those it writes, those that clauses
    write which read a value of one of these, and so on; by name.
    """
    clauses = (*(probe.clause for probe in plan.probes), *plan.user)
    lacking = _written(clause)
    while True:
        more = lacking.union(*(_written(other) for other in clauses if lacking & _read(other)))
        if more == lacking:
            return tuple(sorted(name for name in lacking if not plan.program.maps[name].inner))
        lacking = more


def _written(clause: Clause) -> frozenset[str]:
    kinds = (Aggregate, MapAdd, MapIncr, MapSet, Delete, Deleted, Clear, Zero)
    return frozenset(node.map for node in walk_clause(clause) if isinstance(node, kinds))


def _read(clause: Clause) -> frozenset[str]:
    nodes = list(walk_clause(clause))
    alone = {id(node.expr) for node in nodes if isinstance(node, ExprStmt)}  # `@n++;` makes nothing of the value
    kinds = (MapGet, MapIncr, MapLen, HasKey, Find, ForMap)
    return frozenset(node.map for node in nodes if isinstance(node, kinds) and id(node) not in alone)
