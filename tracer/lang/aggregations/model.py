"""What the object of an aggregation says: its arguments, what a key holds, how parts merge, what is shown.

To add an aggregation, write one `Aggregation` and a test. A key of a map has two forms: *inner*, quick to update, in
`results.store`, and *outer*, in `results.values`, which are merged, ordered and rendered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from tracer.dataclass import NamedTuple, dataclass
from tracer.lang.constructs import Call, Function
from tracer.lang.fixed_width import quotient
from tracer.lang.typed import MapDecl
from tracer.lang.types import IntType


class Row(NamedTuple):
    """One bucket: its first value and the first value after it, None where it is open, and its count of hits."""

    low: int | None
    high: int | None
    hits: int


class Average(NamedTuple):
    """What avg and stats keep; the total is a 64-bit integer of the map's sign, wrapped."""

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


Keeps = Literal["value", "count", "sum", "mean", "least", "greatest", "buckets", "series"]
"""What a hit does to a key. The backends know only this about an aggregation: how it is kept, in the inner form of the
stores and in the kernel.

| keeps | a hit | inner |
|---|---|---|
| count | adds 1 | int |
| sum | adds the value | int, not wrapped |
| mean | adds 1 and the value | list of hits and total, not wrapped |
| least, greatest | keeps the value if it is further out | int, or `UNSET` after `zero` |
| buckets | adds 1 to the value's bucket | dict from the number of a bucket to its count |
| series | joins the value to those of its interval, in user space | dict from an interval's number to its value |

"value" is what `keeps_of` says of a map of plain values.
"""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a histogram. Each function takes the parameters of the map behind its own arguments.

    `number`: the bucket of a value. `count`: how many there are. `bounds`: the first value of a bucket and the first
    after it. `label`: one of these as text. `alone`: whether a bucket of one value shows that value alone. `divides`:
    whether, as in bpftrace, `print(@, top, div)` divides the counts. `function`: what finds the number in BPF, a
    function of the prelude; `arguments`: what it takes behind the value. `text`: the number as Python around the name
    of a value, where that is faster than a call. `even`: low end, high end and step, where the buckets between the ends
    are all of one width.
    """

    number: Callable[..., int]
    count: Callable[..., int]
    bounds: Callable[..., tuple[int | None, int | None]]
    label: Callable[..., str]
    alone: Callable[..., bool]
    divides: bool
    function: str
    arguments: Callable[..., tuple[int, ...]]
    text: Callable[..., str | None]
    even: Callable[..., tuple[int, int, int]] | None = None


class Series(NamedTuple):
    """Consecutive intervals: the time of day when each began, in nanoseconds, and its value, None for none. `signed`:
    whether values are read as signed.
    """

    intervals: tuple[tuple[int, int | None], ...]
    signed: bool


Shown = int | dict[str, int] | list[Row] | Series
"""The form that renderers take: a number, named numbers, a histogram, or a series."""


@dataclass(frozen=True, slots=True)
class Aggregation(Function):
    """A function that is assigned to a map.

    `keeps`: what a hit does, which the backends print. `buckets`: of a histogram.
    `parameters`: its constants, checked. `update`: the inner form after one more value, None before the first; it may
    change what it is given; of a series the value is (its moment, itself). `zero`: the inner form that `zero()` leaves.
    `outer`: inner to outer. `merge`: two outer forms into one, the first of which may be changed. `rank`: by what a map
    is ordered; None: by its keys alone, and all of it prints. `together`: the outer forms of all keys as they are shown
    beside each other. `parts`: one of these divided as `print()` asks. `json`: the type of its line. `single`: it can
    be read, and shows before the first hit.
    """

    keeps: Keeps = "count"
    buckets: Buckets | None = None
    parameters: Callable[[Call], tuple[int, ...] | None] = lambda call: ()
    update: Callable[[MapDecl, Any, Any], Any] = lambda decl, inner, value: value
    zero: Callable[[], Any] = int
    outer: Callable[[MapDecl, Any], Any] = lambda decl, inner: inner
    merge: Callable[[MapDecl, Any, Any], Any] = lambda decl, held, other: other
    rank: Callable[[Any], int] | None = int
    together: Callable[[MapDecl, Sequence[Any]], Sequence[Any]] = lambda decl, values: values
    parts: Callable[[MapDecl, Any, int], Shown] = lambda decl, value, div: value
    json: bytes = b"map"
    single: bool = True


def is_signed(decl: MapDecl) -> bool:
    """Whether an aggregation reads its values, and shows its sums, as signed."""
    return isinstance(decl.value, IntType) and decl.value.signed
