"""The values of maps, as every store keeps and every renderer takes them.

| kind | value of one key |
|---|---|
| scalar | the value, in the Python form of its type |
| count, sum, min, max | int |
| avg, stats | `Average(hits, total)` |
| hist, lhist | dict from bucket number to count (see `lang.aggregations.buckets`) |
| tseries | dict from the number of an interval to what it has (see `lang.aggregations.series`) |

Keys are always tuples, () for a map without a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tracer.dataclass import dataclass
from tracer.lang.aggregations.aggregation import Average as Average, Series as Series
from tracer.lang.typed import MapDecl
from tracer.lang.types import Value

Key = tuple[Value, ...]


MapValue = Value | Average | dict[int, Any] | Series


@dataclass(frozen=True, slots=True)
class MapSnapshot:
    """One map at one moment, merged over CPUs and stores. Order is the renderer's business."""

    decl: MapDecl
    items: Mapping[Key, MapValue]


class MapStore(Protocol):
    """The maps of a session, for what runs in user space and for printing.

    A store may be written by the kernel at the same time. `begin_handler` and `end_handler` bracket a handler (an
    interval's body, END, a control event): inside it every read of a map sees one moment, and `clear` or `zero` of a
    map that was read takes away exactly what was read, so that each hit falls into exactly one interval.
    """

    def get(self, name: str, key: Key) -> MapValue | None:
        """The value of a key, or None where there is none."""

    def snapshot(self, name: str) -> MapSnapshot:
        """The whole map."""

    def set(self, name: str, key: Key, value: Value) -> None:
        """Assigns a scalar."""

    def add(self, name: str, key: Key, delta: int) -> None:
        """Adds to a scalar integer, atomically; wraps at its width."""

    def aggregate(self, name: str, key: Key, function: str, value: int, when: int = 0) -> None:
        """One more value for an aggregation (count: `value` is ignored); `when` is the moment of one of a series."""

    def delete(self, name: str, key: Key) -> None:
        """Removes a key; no error where it is absent."""

    def clear(self, name: str) -> None:
        """Removes all keys."""

    def zero(self, name: str) -> None:
        """Sets all values to 0, and keeps the keys."""

    def begin_handler(self) -> None:
        """Begins a handler: up to `end_handler` each map is read at one moment."""

    def end_handler(self) -> None:
        """Ends what `begin_handler` began."""
