"""Decides which kernel maps hold a map of the program.

| what probes do with the map | where it lives | a value is |
|---|---|---|
| count(), hist(), lhist(), `@++` alone | per CPU, added to atomically | u64 |
| sum(), avg(), stats(), other `+=` alone | per CPU, added to atomically | u64 hits, u64 total |
| min(), max() | per CPU, raised by compare-and-swap | u64, see `EXTREME`; in arrays also a u64 seen |
| quantiles() | per CPU, added to and raised | u64 hits, u64 greatest, for each bucket |
| any of these, and a probe reads it too | one for all CPUs, otherwise the same | the same |
| assignment, or `++` of what a probe also reads or sets | one for all CPUs | as `layout` says |

Without a key, and where keys are few and known before the first hit (`dense`), the per-CPU kinds are arrays, with a
place for each key and bucket; else they are hashes, and a histogram's bucket is part of the key. In an array a key that
nothing was added to is not there. Maps that no probe touches live in user space alone and have no table; so do series,
whose values, clears and zeros come through the ring in their order (`store`).

A hash that BEGIN or an interval clears has a *generation* in its key: `clear` and `zero` raise the number and new hits
go to new elements, while the old ones stay readable until nothing changes them any more (`store`).

A map that a probe clears or zeroes has a *mark* in the control block, which the program itself raises, so that the hit
after it counts anew; the map is then a hash with the mark in its key, with or without keys of its own (`marks`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.backends.bcc.maps.dense import Grid, going_on, grids, with_room
from tracer.backends.bcc.maps.element_bytes import KeyLayout, size_of
from tracer.dataclass import dataclass
from tracer.lang.aggregations.aggregation import COUNTER, TOTAL, VALUE, Cell
from tracer.lang.aggregations.registry import buckets_of, kept_of
from tracer.lang.typed import MapDecl
from tracer.lang.types import IntType
from tracer.plan.model import Plan
from tracer.steps.model import Each, Empty, MapAdd, MapDelete, MapGet, MapHas, MapLength, MapSet, Update
from tracer.steps.values import Const
from tracer.steps.walk import walk

_LEAST_BUCKETS = 1 << 16
"""The least room for buckets, as far as there are so many: a few keys then never lack any."""

_GENERATIONS = 3
"""A map that is cleared has room for the keys of this many generations, the old ones being given back in time."""

_FEWEST_CLEARED, _FEWEST_MARKED = 256, 1 << 16
"""The least room of a map that is cleared in user space, and of one that probes clear: clears may follow each other
faster than old keys are given back. Room that is not used takes no memory."""


@dataclass(frozen=True, slots=True)
class Table:
    """A map's place in the kernel. `numbers` name its maps in the C: one for each of `key.sizes`.

    `generation`, `mark` and `length` are indices into the control block, where user space clears the map, probes do, or
    probes ask for its length. `buckets` is 1 for what is no histogram. `grid` are the keys of an array, which has no
    `key`. `deleted`: probes delete keys.
    """

    decl: MapDecl
    cell: Cell
    per_cpu: bool
    key: KeyLayout | None
    numbers: tuple[int, ...]
    max_entries: int
    buckets: int = 1
    generation: int | None = None
    length: int | None = None
    mark: int | None = None
    grid: Grid | None = None
    deleted: bool = False

    @property
    def value_size(self) -> int:
        """Bytes of a value (of one CPU)."""
        if self.cell is VALUE:
            return size_of(self.decl.value)
        return self.cell.size if self.grid is None else self.cell.array_size

    def describe(self) -> str:
        """The line about it in the C program's comment."""
        cpus = "per CPU" if self.per_cpu else "shared"
        kind = "array" if self.grid is not None else "hash"
        extra = ", generation in the key" if self.generation is not None else ""
        extra += ", mark in the key" if self.mark is not None else ""
        return f"{self.decl.name}: {cpus} {kind} of {self.cell.text}{extra}"


def tables(plan: Plan, before: Mapping[str, Table] | None = None) -> dict[str, Table]:
    """The tables of the maps that probes touch, by name, numbered from 0 in the order of declaration. `before`: those
    that are there already, and that more sites are to use.
    """
    uses = _uses(plan)
    marked = marks(plan)
    grid_of = grids(plan)
    by_name: dict[str, Table] = {}
    number = generations = lengths = 0
    for name, decl in plan.program.maps.items():
        use = uses[name]
        if "touched" not in use:
            continue
        cell = _cell(decl, use)
        per_cpu = cell is not VALUE and "read" not in use
        buckets = bucket_count(decl)
        mark = marked.get(name)
        grid = grid_of.get(name) if per_cpu and "deleted" not in use and mark is None else None
        if grid is not None and (
            # Where nothing can be subtracted, clearing needs a generation, and deleting an element, of a hash.
            (not cell.subtracts and use & {"user clears", "user deletes"})
            or (decl.key and grid.count * buckets > grid.most)
        ):
            grid = None
        if before is not None:
            earlier = before[name].grid if name in before else None
            grid = going_on(earlier, grid) if grid is not None and earlier is not None else None
        elif grid is not None and plan.sites_so_far is not None:
            grid = with_room(grid, min(plan.program.most_keys(name), grid.most // buckets))
        if grid is not None and not grid.count:
            grid = None
        generation = length = None
        if "user clears" in use and grid is None:
            generation, generations = generations, generations + 1
        if "length" in use:
            length, lengths = lengths, lengths + 1
        head = generation is not None or buckets > 1
        key = None if grid is not None else KeyLayout.of(decl.key, head=head, marked=mark is not None)
        numbers = tuple(range(number, number + (1 if key is None else len(key.sizes))))
        if grid is not None:
            entries = grid.count * buckets
        else:
            keys = plan.program.most_keys(name) if decl.key else 1
            entries = _room(decl, keys)
            if generation is not None and not decl.forgets:
                entries = max(_GENERATIONS * entries, _FEWEST_CLEARED)
            if mark is not None and not decl.forgets:
                entries = max(_GENERATIONS * entries, _FEWEST_MARKED)
        by_name[name] = Table(
            decl, cell, per_cpu, key, numbers, entries, buckets, generation, length, mark, grid, "deleted" in use
        )
        number += len(numbers)
    return by_name


def marks(plan: Plan) -> dict[str, int]:
    """The maps that probes clear or zero, each with the index of its mark in the control block."""
    uses = _uses(plan)
    return {name: index for index, name in enumerate(name for name in plan.program.maps if "reset" in uses[name])}


def bucket_count(decl: MapDecl) -> int:
    """The number of buckets of a histogram; 1 for other maps."""
    buckets = buckets_of(decl)
    return 1 if buckets is None else buckets.count(*buckets.of(decl))


def _room(decl: MapDecl, keys: int) -> int:
    """The number of elements that a hash of so many keys has room for: of buckets, the keys share it."""
    buckets = buckets_of(decl)
    return keys if buckets is None else min(keys * bucket_count(decl), max(keys * buckets.expected, _LEAST_BUCKETS))


def _cell(decl: MapDecl, use: set[str]) -> Cell:
    cell = kept_of(decl).cell
    if cell is not None:
        return cell
    if use & {"assigned", "read"} or not isinstance(decl.value, IntType):
        return VALUE
    return TOTAL if "added" in use else COUNTER


def _uses(plan: Plan) -> dict[str, set[str]]:
    """The uses of each map: by probes, and in user space as far as that matters (no hit comes after END)."""
    uses: dict[str, set[str]] = {name: set() for name in plan.program.maps}
    for probe in plan.probes:
        for step in walk(plan.steps[probe.clause.id].body):
            match step:
                case MapGet() | MapHas() | Each():
                    uses[step.map] |= {"touched", "read"}
                case MapLength():
                    uses[step.map] |= {"touched", "read", "length"}
                case MapSet():
                    uses[step.map] |= {"touched", "assigned"}
                case MapDelete():
                    uses[step.map] |= {"touched", "deleted"}
                case Empty():
                    uses[step.map].add("reset")
                case MapAdd(value=value, before=before):
                    one = isinstance(value, Const) and value.value == 1
                    uses[step.map] |= {"touched", "added 1" if one else "added", *(("read",) if before else ())}
                case Update():
                    uses[step.map].add("touched")
    for clause in plan.user:
        for step in walk(plan.steps[clause.id].body) if not clause.kind.last else ():
            if isinstance(step, Empty | MapDelete):
                uses[step.map].add("user clears" if isinstance(step, Empty) else "user deletes")
    return uses
