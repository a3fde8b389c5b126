"""What the object of an aggregation says: its arguments, what a key holds, how parts merge, what is shown.

Who adds an aggregation writes one `Aggregation`, and a test. A key of a map has two forms: *inner*, quick to update,
in `results.store`, and *outer*, in `results.values`, which are merged, ordered and rendered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tracer.dataclass import dataclass
from tracer.lang.builtins.model import Call, Function
from tracer.lang.typed import MapDecl
from tracer.lang.types import IntType
from tracer.results.integers import quotient


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


Shown = int | dict[str, int] | list[Row]
"""What renderers take: a number, named numbers, or a histogram."""


@dataclass(frozen=True, slots=True)
class Aggregation(Function):
    """A function that is assigned to a map.

    `parameters`: its constants, checked. `update`: the inner form after one more value, None before the first; it may
    change what it is given. `zero`: the inner form that `zero()` leaves. `outer`: inner to outer. `merge`: two outer
    forms into one, the first of which may be changed. `rank`: by what a map is ordered. `parts`: an outer form divided
    as `print()` asks. `json`: the type of its line. `single`: it can be read, and shows before the first hit.
    """

    parameters: Callable[[Call], tuple[int, ...] | None] = lambda call: ()
    update: Callable[[MapDecl, Any, int], Any] = lambda decl, inner, value: value
    zero: Callable[[], Any] = int
    outer: Callable[[MapDecl, Any], Any] = lambda decl, inner: inner
    merge: Callable[[MapDecl, Any, Any], Any] = lambda decl, held, other: other
    rank: Callable[[Any], int] = int
    parts: Callable[[MapDecl, Any, int], Shown] = lambda decl, value, div: value
    json: bytes = b"map"
    single: bool = True


def is_signed(decl: MapDecl) -> bool:
    """Whether an aggregation reads its values, and shows its sums, as signed."""
    return isinstance(decl.value, IntType) and decl.value.signed
