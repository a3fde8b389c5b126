"""Keys that are few and known before the first hit: `arg0 & 15`, `arg1 % 100`, a bool, a constant text, and of many
sites `probe` and `func`.

Such a map needs no hash: each key has its place in a per-CPU array, computed from the key alone, and what nothing was
added to counts as absent. A map of keys `(a, b)` is a grid: the place of `(a, b)` is that of a times the number of b's,
plus that of b.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracer.backends.bcc.maps.layout import wrap
from tracer.dataclass import dataclass
from tracer.lang.typed import (
    Aggregate,
    Arg,
    Binary,
    BoolLit,
    Builtin,
    Cast,
    Expr,
    IntLit,
    MapAdd,
    StrLit,
    Strncmp,
    Ternary,
)
from tracer.lang.types import BoolType, IntType, StringType, Type, Value
from tracer.lang.walk import walk_clause
from tracer.plan.model import Plan, ProbePlan, Variant
from tracer.resolve.model import ArgSpec, Const
from tracer.results.values import Key

MOST_ELEMENTS = 4096
"""Elements of an array, buckets included: 32 KiB for each CPU, whether used or not."""

MOST_OF_SITES = 16384
"""The same where texts of sites are keys: each of them is one that somebody asked for."""

Bounds = tuple[int, int]
"""The smallest and the largest value."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A part of a key: an integer or bool from `low` on."""

    low: int
    count: int
    bool: bool

    def value(self, place: int) -> Value:
        """What stands at a place."""
        return bool(place + self.low) if self.bool else place + self.low


@dataclass(frozen=True, slots=True)
class Texts:
    """A part of a key: one of these texts. `built_ins` are those of "probe" and "func" that are among them."""

    texts: tuple[bytes, ...]
    built_ins: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.texts)

    def value(self, place: int) -> Value:
        """What stands at a place."""
        return self.texts[place]


@dataclass(frozen=True, slots=True)
class Grid:
    """All keys that a map can have."""

    parts: tuple[Numbers | Texts, ...]

    @property
    def count(self) -> int:
        """How many keys there are."""
        found = 1
        for part in self.parts:
            found *= part.count
        return found

    @property
    def most(self) -> int:
        """How many elements an array for them may have."""
        of_sites = any(isinstance(part, Texts) and part.built_ins for part in self.parts)
        return MOST_OF_SITES if of_sites else MOST_ELEMENTS

    def key(self, place: int) -> Key:
        """The key at a place."""
        values: list[Value] = []
        for part in reversed(self.parts):
            place, at = divmod(place, part.count)
            values.append(part.value(at))
        return tuple(reversed(values))


def grids(plan: Plan) -> dict[str, Grid]:
    """The grid of each map whose keys in all probes are few and known; of a map without key, one of one place."""
    keys: dict[str, list[tuple[ProbePlan, tuple[Expr, ...]]]] = {}
    for probe in plan.probes:
        for node in walk_clause(probe.clause):
            if isinstance(node, Aggregate | MapAdd):
                keys.setdefault(node.map, []).append((probe, node.key))
    found: dict[str, Grid] = {}
    for name, uses in keys.items():
        decl = plan.program.maps[name]
        parts = [
            _part(kind, [(probe, key[index]) for probe, key in uses]) for index, kind in enumerate(decl.key)
        ]
        known = [part for part in parts if part is not None]
        grid = Grid(tuple(known))
        if len(known) == len(parts) and grid.count <= plan.program.config.max_map_keys:
            found[name] = grid
    return found


def cut(text: bytes, kind: StringType) -> bytes:
    """A constant text as a buffer holds it."""
    return text[: kind.size - 1].partition(b"\0")[0]


def text_of_site(variant: Variant, built_in: str, kind: StringType) -> bytes:
    """What `probe` or `func` is at these sites, as a buffer holds it."""
    text = variant.probe if built_in == "probe" else variant.function
    return cut((text or "").encode(errors="surrogateescape"), kind)


def _part(kind: Type, uses: Sequence[tuple[ProbePlan, Expr]]) -> Numbers | Texts | None:
    if isinstance(kind, StringType):
        texts: dict[bytes, None] = {}
        built_ins: set[str] = set()
        for probe, expr in uses:
            known = _texts(expr, kind, probe, built_ins)
            if known is None:
                return None
            texts |= dict.fromkeys(known)
        return Texts(tuple(texts), frozenset(built_ins))
    if not isinstance(kind, IntType | BoolType):
        return None
    found = [_bounds(expr, probe) for probe, expr in uses]
    known_bounds = [bounds for bounds in found if bounds is not None]
    if len(known_bounds) < len(found):
        return None
    low, high = min(low for low, _ in known_bounds), max(high for _, high in known_bounds)
    if not _holds(kind, (low, high)) or high - low >= MOST_ELEMENTS:
        return None
    return Numbers(low, high - low + 1, isinstance(kind, BoolType))


def _texts(expr: Expr, kind: StringType, probe: ProbePlan, built_ins: set[str]) -> list[bytes] | None:
    match expr:
        case StrLit(value=text):
            return [cut(text, kind)]
        case Builtin(name="probe" | "func"):
            built_ins.add(expr.name)
            return [text_of_site(variant, expr.name, kind) for variant in probe.variants]
        case Cast(operand=operand):
            return _texts(operand, kind, probe, built_ins)
        case Ternary(then=then, otherwise=otherwise):
            one, other = (_texts(each, kind, probe, built_ins) for each in (then, otherwise))
            return None if one is None or other is None else [*one, *other]
        case _:
            return None


def _bounds(expr: Expr, probe: ProbePlan) -> Bounds | None:
    """Between what an integer or bool surely lies; None where it can be anything. Never beyond its type."""
    found = _computed(expr, probe)
    return found if found is not None and _holds(expr.type, found) else _of_type(expr.type)


def _computed(expr: Expr, probe: ProbePlan) -> Bounds | None:
    match expr:
        case IntLit(value=value):
            return value, value
        case BoolLit(value=truth):
            return int(truth), int(truth)
        case Strncmp():
            return 0, 1
        case Arg(index=index):
            return _joined(_of_argument(variant.args[index], expr.type) for variant in probe.variants)
        case Cast(operand=operand):
            return _bounds(operand, probe)
        case Ternary(then=then, otherwise=otherwise):
            return _joined([_bounds(then, probe), _bounds(otherwise, probe)])
        case Binary(op=op, left=left, right=right) if isinstance(expr.type, IntType):
            return _combined(op, _bounds(left, probe), _bounds(right, probe))
        case _:
            return None


def _combined(op: str, left: Bounds | None, right: Bounds | None) -> Bounds | None:
    """Bounds of an operation on bounded values, as if integers had no width."""
    if op == "&":
        # Of two's complement: with one side not negative, the result has no bit that this side has not.
        tops = [bounds[1] for bounds in (left, right) if bounds is not None and bounds[0] >= 0]
        return (0, min(tops)) if tops else None
    if right is None:
        return None
    if op == "%" and right[0] > 0:
        most = right[1] - 1
        if left is None:
            return -most, most
        return max(min(left[0], 0), -most), min(max(left[1], 0), most)
    if left is None:
        return None
    match op:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            corners = [one * other for one in left for other in right]
            return min(corners), max(corners)
        case "/" if left[0] >= 0 and right[0] > 0:
            return left[0] // right[1], left[1] // right[0]
        case ">>" if left[0] >= 0 and right[0] == right[1] and 0 <= right[0] < 64:
            return left[0] >> right[0], left[1] >> right[0]
        case "|" | "^" if left[0] >= 0 and right[0] >= 0:
            return 0, (1 << max(left[1].bit_length(), right[1].bit_length())) - 1
        case _:
            return None


def _of_argument(spec: ArgSpec, kind: Type) -> Bounds | None:
    narrow = IntType(8 * spec.size, spec.signed)
    if isinstance(spec.operand, Const):
        value = wrap(kind, wrap(narrow, spec.operand.value))
        return value, value
    return _of_type(narrow)


def _joined(each: Iterable[Bounds | None]) -> Bounds | None:
    low: int | None = None
    high = 0
    for bounds in each:
        if bounds is None:
            return None
        low, high = (bounds[0], bounds[1]) if low is None else (min(low, bounds[0]), max(high, bounds[1]))
    return None if low is None else (low, high)


def _of_type(kind: Type) -> Bounds | None:
    if isinstance(kind, BoolType):
        return 0, 1
    if not isinstance(kind, IntType):
        return None
    top = 1 << (kind.bits - kind.signed)
    return (-top if kind.signed else 0), top - 1


def _holds(kind: Type, bounds: Bounds) -> bool:
    widest = _of_type(kind)
    return widest is not None and widest[0] <= bounds[0] and bounds[1] <= widest[1]
