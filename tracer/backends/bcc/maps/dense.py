"""Keys that are few and known before the first hit: `arg0 & 15`, `arg1 % 100`, a bool, a constant text, and of many
sites `probe`, `func`, `line` and `file`.

Such a map needs no hash: each key has its place in a per-CPU array, computed from the key alone, and what nothing was
added to counts as absent. A map of keys `(a, b)` is a grid: the place of `(a, b)` is that of a times the number of b's,
plus that of b.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from tracer.backends.bcc.maps.element_bytes import wrap
from tracer.dataclass import dataclass, replace
from tracer.kinds.site import ArgSpec, Const as Operand
from tracer.lang.types import BOOL, BoolType, IntType, StringType, Type, Value as Known, operations
from tracer.plan.model import Plan, ProbePlan, Variant
from tracer.results.values import Key
from tracer.steps.arithmetic import bounds, limits
from tracer.steps.model import Fetch, Let, MapAdd, Steps, Update
from tracer.steps.values import Argument, Const, Name, Op, SiteText, Value
from tracer.steps.walk import defined, walk

MOST_ELEMENTS = 4096
"""Elements of an array, buckets included: 32 KiB for each CPU, whether used or not."""

MOST_OF_SITES = 16384
"""The same for a key of sites' texts, of which somebody asked for each."""

@dataclass(frozen=True, slots=True)
class Numbers:
    """A part of a key: an integer or bool from `low` on."""

    low: int
    count: int
    bool: bool

    def value(self, place: int) -> Known:
        """The value of a place."""
        return bool(place + self.low) if self.bool else place + self.low


@dataclass(frozen=True, slots=True)
class Texts:
    """A part of a key: one of these texts. `built_ins` are those of `SITE_VALUES` among them. `spare`: for how many
    more texts there is room, of files that come later.
    """

    texts: tuple[bytes, ...]
    built_ins: frozenset[str] = frozenset()
    spare: int = 0

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.texts) + self.spare

    def value(self, place: int) -> Known:
        """The value of a place."""
        return self.texts[place] if place < len(self.texts) else b""


@dataclass(frozen=True, slots=True)
class Grid:
    """The keys that a map can have, all of them."""

    parts: tuple[Numbers | Texts, ...]

    @property
    def count(self) -> int:
        """The number of keys."""
        product = 1
        for part in self.parts:
            product *= part.count
        return product

    @property
    def most(self) -> int:
        """The most elements that an array for them may have."""
        of_sites = any(isinstance(part, Texts) and part.built_ins for part in self.parts)
        return MOST_OF_SITES if of_sites else MOST_ELEMENTS

    def key(self, place: int) -> Key:
        """The key at a place."""
        values: list[Known] = []
        for part in reversed(self.parts):
            place, number = divmod(place, part.count)
            values.append(part.value(number))
        return tuple(reversed(values))


def grids(plan: Plan) -> dict[str, Grid]:
    """The grid of each map whose keys in all probes are few and known; of a map without key, one of one place."""
    keys: dict[str, list[tuple[_Clause, tuple[Value, ...]]]] = {}
    for probe in plan.probes:
        clause = _Clause(probe, plan.steps[probe.clause.id])
        for step in walk(clause.steps.body):
            if isinstance(step, Update | MapAdd):
                keys.setdefault(step.map, []).append((clause, step.key))
    of_maps: dict[str, Grid] = {}
    for name, uses in keys.items():
        decl = plan.program.maps[name]
        parts = [_part(kind, [(clause, key[index]) for clause, key in uses]) for index, kind in enumerate(decl.key)]
        narrow = [part for part in parts if part is not None]
        grid = Grid(tuple(narrow))
        if len(narrow) == len(parts) and grid.count <= plan.program.most_keys(name):
            of_maps[name] = grid
    return of_maps


_SOON_FULL = 128
"""Keys up to which a table is small; there is room for so many where files come later, and else for `_MORE` more."""
_MORE = (1024, 256, 64, 16)


def with_room(grid: Grid, most: int) -> Grid:
    """The grid with room for the texts of sites that come later, of at most so many keys."""
    if not any(isinstance(part, Texts) and part.built_ins for part in grid.parts):
        return grid
    for spare in (_SOON_FULL - grid.count, *_MORE):
        parts = [
            replace(part, spare=spare) if isinstance(part, Texts) and part.built_ins else part for part in grid.parts
        ]
        if spare > 0 and (larger := Grid(tuple(parts))).count <= most:
            return larger
    return grid


def going_on(before: Grid, grid: Grid) -> Grid | None:
    """The grid of more sites as a continuation of one that has its array already; None where it does not fit."""
    parts: list[Numbers | Texts] = []
    for old, new in zip(before.parts, grid.parts, strict=True):
        if isinstance(old, Texts) and isinstance(new, Texts):
            texts = tuple(dict.fromkeys((*old.texts, *new.texts)))
            if len(texts) > old.count:
                return None
            parts.append(Texts(texts, old.built_ins | new.built_ins, old.count - len(texts)))
        elif isinstance(old, Numbers) and isinstance(new, Numbers):
            if not (old.low <= new.low and new.low + new.count <= old.low + old.count):
                return None
            parts.append(old)
        else:
            return None
    return Grid(tuple(parts))


def cut(text: bytes, kind: StringType) -> bytes:
    """A constant text as a buffer holds it."""
    return text[: kind.size - 1].partition(b"\0")[0]


def text_of_site(variant: Variant, built_in: str, kind: StringType) -> bytes:
    """The value of `probe` or its like at these sites, as a buffer holds it."""
    text = variant.told.get(built_in, b"")
    assert isinstance(text, bytes)
    return cut(text, kind)


class _Clause:
    """A probe, its steps, and what is known of their names before the first hit."""

    def __init__(self, probe: ProbePlan, steps: Steps) -> None:
        self.probe = probe
        self.steps = steps
        self._given = {name.id: step for step in walk(steps.body) if (name := defined(step)) is not None}

    def narrowed(self, value: Value) -> Value:
        """The value with each name that stands for an argument, or for another value, as narrow as it is known."""
        if isinstance(value, Op):
            return replace(value, args=tuple(map(self.narrowed, value.args)))
        if isinstance(value, SiteText) and isinstance(value.type, IntType) and self.probe.variants:
            return _any_of([Const(value.type, variant.told[value.name]) for variant in self.probe.variants])
        step = self._given.get(value.id) if isinstance(value, Name) else None
        match step:
            case Let(value=inner):
                return self.narrowed(inner)
            case Fetch(source=Argument(index=index)) if self.probe.variants:
                return _any_of([_argument(value, variant.args[index]) for variant in self.probe.variants])
            case _:
                return value


_UNKNOWN = Name(BOOL, -1)


def _any_of(values: Sequence[Value]) -> Value:
    """A value that is one of these, it is not known which: nested as little as can be, since there may be thousands."""
    alternatives = list(dict.fromkeys(values))
    while len(alternatives) > 1:
        pairs = zip_longest(alternatives[::2], alternatives[1::2])
        select = operations.SELECT
        alternatives = [one if other is None else Op(one.type, select, (_UNKNOWN, one, other)) for one, other in pairs]
    return alternatives[0]


def _argument(name: Value, spec: ArgSpec) -> Value:
    narrow = IntType(8 * spec.size, spec.signed)
    if isinstance(spec.operand, Operand):
        return Const(name.type, wrap(name.type, wrap(narrow, spec.operand.value)))
    return replace(name, type=narrow)


def _part(kind: Type, uses: Sequence[tuple[_Clause, Value]]) -> Numbers | Texts | None:
    if isinstance(kind, StringType):
        texts: dict[bytes, None] = {}
        built_ins: set[str] = set()
        for clause, value in uses:
            of_value = _texts(clause.narrowed(value), kind, clause.probe, built_ins)
            if of_value is None:
                return None
            texts |= dict.fromkeys(of_value)
        return Texts(tuple(texts), frozenset(built_ins))
    if not isinstance(kind, IntType | BoolType):
        return None
    ranges = [bounds(clause.narrowed(value)) for clause, value in uses]
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    least, most = limits(kind)
    if low < least or high > most or high - low >= MOST_ELEMENTS:
        return None
    return Numbers(low, high - low + 1, isinstance(kind, BoolType))


def _texts(value: Value, kind: StringType, probe: ProbePlan, built_ins: set[str]) -> list[bytes] | None:
    match value:
        case Const(value=bytes(text)):
            return [cut(text, kind)]
        case SiteText(name=name):
            built_ins.add(name)
            return [text_of_site(variant, name, kind) for variant in probe.variants]
        case Op(op=operations.AS, args=(inner,)):
            return _texts(inner, kind, probe, built_ins)
        case Op(op=operations.SELECT, args=(_, then, otherwise)):
            one, other = (_texts(branch, kind, probe, built_ins) for branch in (then, otherwise))
            return None if one is None or other is None else [*one, *other]
        case _:
            return None
