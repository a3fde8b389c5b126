"""An aggregation is an object that brings its arguments, what a key holds, how parts merge and what is shown.

To add an aggregation, write one `Aggregation` and a test. A key of a map has two forms: *inner*, quick to update, in
`results.store`, and *outer*, in `results.values`, which are merged, ordered and rendered.

How a key is kept is a `Kept` of its own, which the printers of C and of Python read, and what reads the kernel's maps
and tables. One that is not here is one more. Where its `Cell` is new too, it needs two functions in
`bpf_programs/maps.h`, and an element in `backends/bcc/maps/elements.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer.dataclass import NamedTuple, dataclass
from tracer.lang.constructs import BuiltinFunction, Call
from tracer.lang.fixed_width import quotient
from tracer.lang.typed import MapDecl
from tracer.lang.types import IntType


class Row(NamedTuple):
    """One bucket: its first value and the first value after it, None where it is open, and its count of hits."""

    low: int | None
    high: int | None
    hits: int


class Average(NamedTuple):
    """The state of avg and stats; the total is a 64-bit integer of the map's sign, wrapped."""

    hits: int
    total: int

    @property
    def mean(self) -> int:
        """The average, truncated towards zero; 0 of nothing."""
        return quotient(self.total, self.hits)


class _Unset(int):
    """The 0 that `zero` leaves in a min or max map: any value is less, and any is greater, so the next one replaces it.

    Python asks the subclass first (`5 < UNSET` calls its `__gt__`), so that the compiled code needs no case of its own.
    """

    def __gt__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return True


UNSET = _Unset(0)


@dataclass(frozen=True, slots=True)
class Cell:
    """The form of a value in a map of BPF, of one CPU.

    `add`: the function of `maps.h` that adds to it, `array_` before it for that of arrays. `size` and `array_size`: its
    bytes. `subtracts`: what is new since a reading is what was read less what had been; of another kind all of it is
    new where it has changed, so that clearing it takes a new element.
    """

    add: str
    text: str
    size: int
    array_size: int
    subtracts: bool = True


COUNTER = Cell("counter_add", "u64", 8, 8)
TOTAL = Cell("total_add", "u64 hits, u64 total", 16, 16)
EXTREME = Cell("extreme_raise", "u64, larger is further out", 8, 16, subtracts=False)
"""min and max as one operation: the value is mapped to an unsigned number that grows with the value for max and falls
for min. 0 is then neutral: a CPU that never wrote its slot changes nothing. In arrays a u64 behind it says whether it
is there."""
PEAK = Cell("peak_add", "u64 hits, u64 greatest", 16, 16, subtracts=False)
"""A counter, and the greatest value that it has counted, mapped as for max."""
VALUE = Cell("counter_add", "value", 0, 0)
"""Assigned, or added to; of the size that the value's type has."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The way in which a key of a map is kept; `inner` is its form in `results.store`.

    `cell`: in BPF; None: as its clauses use it, as plain values are. `encode`: the macros of C that map a signed and
    an unsigned value to what `add` takes; `flip` gives the value again, by whether it is signed: xor with this.
    `read`: how a probe in C reads a signed and an unsigned one at a pointer.

    `first` and `more` are Python: the inner form of a first value `{value}`, and the lines that put one more into
    `{held}`, what `{table}` has under `{key}`; without `first` the aggregation's own `update` does. `quick`: `more`
    stands where the key mostly is there and needs no `{held}`. `wraps`: the inner form is a number that is not wrapped.

    `counted`: the inner form after so many more hits with their total, (inner or None, hits, total) → inner, as a
    table of the kernel's hist triggers says it; None: not of these alone. `bare`: a hit adds 1, and nothing else is
    known. `in_user_space`: values go there one by one, in time order, with their moments.
    """

    cell: Cell | None
    encode: tuple[str, str] | None = None
    flip: tuple[int, int] = (0, 0)
    read: tuple[str, str] = ("*{}", "*{}")
    first: str = ""
    more: tuple[str, ...] = ()
    quick: bool = False
    wraps: bool = False
    counted: Callable[[Any, int, int], Any] | None = None
    bare: bool = False
    in_user_space: bool = False


_TOP, _ALL = 1 << 63, (1 << 64) - 1
_PLUS = ("{table}[{key}] += {value}",)


def _hits(inner: int | None, hits: int, total: int) -> int:
    return (inner or 0) + hits


def _total(inner: int | None, hits: int, total: int) -> int:
    return (inner or 0) + total


def _both(inner: list[int] | None, hits: int, total: int) -> list[int]:
    count, so_far = inner or (0, 0)
    return [count + hits, so_far + total]


PLAIN = Kept(None, counted=_total)
COUNT = Kept(COUNTER, first="{value}", more=_PLUS, quick=True, counted=_hits, bare=True)
SUM = Kept(
    TOTAL, read=("{}[1]", "{}[1]"), first="{value}", more=_PLUS, quick=True, wraps=True, counted=_total,
)  # fmt: skip
MEAN = Kept(
    TOTAL, read=("divide_signed({0}[1], {0}[0])", "divide({0}[1], {0}[0])"), first="[1, {value}]",
    more=("{held}[0] += 1", "{held}[1] += {value}"), counted=_both,
)  # fmt: skip
LEAST = Kept(
    EXTREME, ("SIGNED_MIN", "UNSIGNED_MIN"), (_TOP ^ _ALL, _ALL), ("(~*{} ^ TOP_BIT)", "~*{}"), "{value}",
    ("if {value} < {held}: {table}[{key}] = {value}",), wraps=True,
)  # fmt: skip
GREATEST = Kept(
    EXTREME, ("SIGNED_MAX", "UNSIGNED_MAX"), (_TOP, 0), ("(*{} ^ TOP_BIT)", "*{}"), "{value}",
    ("if {value} > {held}: {table}[{key}] = {value}",), wraps=True,
)  # fmt: skip
BUCKETS = Kept(COUNTER, first="{{{value}: 1}}", more=("{held}[{value}] = {held}.get({value}, 0) + 1",))
PEAKS = Kept(PEAK, ("SIGNED_MAX", "UNSIGNED_MAX"), (_TOP, 0))
SERIES = Kept(None, in_user_space=True)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Buckets that values are counted in. Each function takes what `of` says of a map behind its own arguments.

    `number`: the bucket of a value. `count`: how many there are. `bounds`: the first value of a bucket and the first
    after it. `function`: what finds the number in BPF, a function of the prelude; `arguments`: what it takes behind the
    value. `text`: the number as Python around the name of a value, where that is faster than a call. `even`: low end,
    high end and step, where the buckets between the ends are all of one width. `doubles`: whether they are 0, the
    values from each power of two to the next, and all that are negative. `expected`: how many of them a key is
    expected to fill, which a map has room for; the keys share it. `label`, `alone`, `divides`: of a drawn histogram, a
    bound as text; whether a bucket of one value shows that value alone; and whether, as in bpftrace,
    `print(@, top, div)` divides the counts.
    """

    number: Callable[..., int]
    count: Callable[..., int]
    bounds: Callable[..., tuple[int | None, int | None]]
    function: str
    arguments: Callable[..., tuple[int, ...]]
    text: Callable[..., str | None] = lambda value, *parameters: None
    even: Callable[..., tuple[int, int, int]] | None = None
    doubles: Callable[..., bool] = lambda *parameters: False
    of: Callable[[MapDecl], tuple[int, ...]] = lambda decl: decl.parameters
    expected: int = 16
    label: Callable[..., str] = lambda value, *parameters: str(value)
    alone: Callable[..., bool] = lambda *parameters: True
    divides: bool = False


class Series(NamedTuple):
    """Consecutive intervals: the time of day when each began, in nanoseconds, and its value, None for none. `signed`:
    whether values are read as signed.
    """

    intervals: tuple[tuple[int, int | None], ...]
    signed: bool


Shown = int | dict[str, int] | list[Row] | Series
"""The form that renderers take: a number, named numbers, a histogram, or a series."""


@dataclass(frozen=True, slots=True)
class Aggregation(BuiltinFunction):
    """A function that is assigned to a map.

    `kept`: what a key holds and a hit does, in the stores and in the kernel. `buckets`: those that it counts in.
    `parameters`: its constants, checked; `constants` what they are called. `update`: the inner form after one more
    value, None before the first; it may change what it is given; of a series the value is (its moment, itself). `zero`:
    the inner form that `zero()` leaves. `outer`: inner to outer. `merge`: two outer forms into one, the first of which
    may be changed. `rank`: by what a map is ordered; None: by its keys alone, and all of it prints. `together`: the
    outer forms of all keys as they are shown beside each other. `parts`: one of these divided as `print()` asks.
    `json`: the type of its line. `single`: it can be read, and shows before the first hit.
    """

    kept: Kept = COUNT
    buckets: Buckets | None = None
    parameters: Callable[[Call], tuple[int, ...] | None] = lambda call: ()
    constants: str = "parameters"
    update: Callable[[MapDecl, Any, Any], Any] = lambda decl, inner, value: value
    zero: Callable[[], Any] = int
    outer: Callable[[MapDecl, Any], Any] = lambda decl, inner: inner
    merge: Callable[[MapDecl, Any, Any], Any] = lambda decl, held, other: other
    rank: Callable[[Any], int] | None = int
    together: Callable[[MapDecl, Sequence[Any]], Sequence[Any]] = lambda decl, values: values
    parts: Callable[[MapDecl, Any, int], Shown] = lambda decl, value, div: value
    json: bytes = b"map"
    single: bool = True


def copied(decl: MapDecl, inner: Any) -> Any:
    """The outer form of what is a dictionary in both."""
    return dict(inner)


def is_signed(decl: MapDecl) -> bool:
    """Whether an aggregation reads its values, and shows its sums, as signed."""
    return isinstance(decl.value, IntType) and decl.value.signed
