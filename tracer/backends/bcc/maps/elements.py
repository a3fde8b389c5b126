"""The elements of a table, by the table's cell: how bytes become a value, and how elements add up."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tracer.backends.bcc.maps.element_bytes import decoder
from tracer.backends.bcc.maps.tables import Table
from tracer.lang.aggregations.aggregation import COUNTER, EXTREME, MEAN, PEAK, TOTAL, VALUE, Cell
from tracer.lang.aggregations.registry import kept_of
from tracer.lang.fixed_width import wrap_int
from tracer.lang.typed import MapDecl
from tracer.results.store import is_signed
from tracer.results.values import Average, MapValue

if TYPE_CHECKING:
    from tracer.backends.bcc.maps.stacks import Stacks

E = TypeVar("E")

_MASK = 0xFFFF_FFFF_FFFF_FFFF


class Element(Protocol[E]):
    """The arithmetic of a map's elements, each of which at one moment is an `E`."""

    def read(self, data: bytes) -> E | None:
        """The parts of all CPUs combined; None for an empty place of an array."""

    def since(self, now: E, before: E | None) -> E | None:
        """The additions since the element was read as `before`; None if there are none."""

    def joined(self, one: E, other: E) -> E:
        """Two elements of one key, of different generations."""

    def value(self, element: E) -> MapValue:
        """The value of an element, in the forms of `results.values`."""


class _Counter:
    """A u64 that is added to: count(), `++`, a bucket of a histogram."""

    def __init__(self, decl: MapDecl, slots: int) -> None:
        self._words = struct.Struct(f"={slots}Q")
        self._signed = decl.kind == "scalar" and is_signed(decl)

    def read(self, data: bytes) -> int | None:
        total: int = sum(self._words.unpack(data))
        return total & _MASK

    def since(self, now: int, before: int | None) -> int | None:
        return (now - (before or 0)) & _MASK or None

    def joined(self, one: int, other: int) -> int:
        return (one + other) & _MASK

    def value(self, element: int) -> MapValue:
        return wrap_int(element, 64, self._signed)


class _Total:
    """Hits and their total, both u64: sum(), avg(), stats(), `+=`."""

    def __init__(self, decl: MapDecl, slots: int) -> None:
        self._average = kept_of(decl) is MEAN
        self._words = struct.Struct(f"={2 * slots}Q")
        self._signed = is_signed(decl)

    def read(self, data: bytes) -> tuple[int, int] | None:
        words = self._words.unpack(data)
        return sum(words[::2]) & _MASK, sum(words[1::2]) & _MASK

    def since(self, now: tuple[int, int], before: tuple[int, int] | None) -> tuple[int, int] | None:
        hits, total = before or (0, 0)
        return ((now[0] - hits) & _MASK, (now[1] - total) & _MASK) if now[0] != hits else None

    def joined(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return (one[0] + other[0]) & _MASK, (one[1] + other[1]) & _MASK

    def value(self, element: tuple[int, int]) -> MapValue:
        total = wrap_int(element[1], 64, self._signed)
        return Average(element[0], total) if self._average else total


class _Extreme:
    """A u64 that only grows (see `EXTREME`); in arrays each CPU's has a u64 behind that says whether it is there.

    An extreme cannot be subtracted: if it has changed since it was read, all of it is new.
    """

    def __init__(self, decl: MapDecl, slots: int, array: bool) -> None:
        self._words = struct.Struct(f"={2 * slots if array else slots}Q")
        self._array = array
        self._signed = is_signed(decl)
        self._flip = kept_of(decl).flip[0 if self._signed else 1]

    def read(self, data: bytes) -> int | None:
        words: tuple[int, ...] = self._words.unpack(data)
        if self._array:
            words = tuple(word for word, seen in zip(words[::2], words[1::2], strict=True) if seen)
        return max(words, default=None)

    def since(self, now: int, before: int | None) -> int | None:
        return now if now != before else None

    def joined(self, one: int, other: int) -> int:
        return max(one, other)

    def value(self, element: int) -> MapValue:
        return wrap_int(element ^ self._flip, 64, self._signed)


class _Peak:
    """Hits and the greatest of them, mapped as an extreme is: a bucket of quantiles(). Of hits that have come since a
    reading the greatest is not known: it is that of all.
    """

    def __init__(self, decl: MapDecl, slots: int) -> None:
        self._words = struct.Struct(f"={2 * slots}Q")
        self._signed = is_signed(decl)
        self._flip = kept_of(decl).flip[0 if self._signed else 1]

    def read(self, data: bytes) -> tuple[int, int] | None:
        words = self._words.unpack(data)
        return sum(words[::2]) & _MASK, max(words[1::2])

    def since(self, now: tuple[int, int], before: tuple[int, int] | None) -> tuple[int, int] | None:
        hits = (now[0] - (before[0] if before else 0)) & _MASK
        return (hits, now[1]) if hits else None

    def joined(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return (one[0] + other[0]) & _MASK, max(one[1], other[1])

    def value(self, element: tuple[int, int]) -> MapValue:
        return element[0], wrap_int(element[1] ^ self._flip, 64, self._signed)


class _Scalar:
    """A value as `layout` has it, which programs and user space assign."""

    def __init__(self, decode: Callable[[bytes, int], MapValue]) -> None:
        self._decode = decode

    def read(self, data: bytes) -> bytes | None:
        return data

    def since(self, now: bytes, before: bytes | None) -> bytes | None:
        return now if now != before else None

    def joined(self, one: bytes, other: bytes) -> bytes:
        return other

    def value(self, element: bytes) -> MapValue:
        return self._decode(element, 0)


def element_of(table: Table, slots: int, stacks: Stacks | None = None) -> Element[Any]:
    """The kind of a table's elements, whose values have this many CPUs' parts."""
    decl, cell = table.decl, table.cell
    if cell is VALUE:
        decode = decoder(decl.value)
        return _Scalar(decode if stacks is None else stacks.resolving(decode, decl.value))
    if cell is EXTREME:
        return _Extreme(decl, slots, table.grid is not None)
    return _ADDED[cell](decl, slots)


_ADDED: dict[Cell, Callable[[MapDecl, int], Element[Any]]] = {COUNTER: _Counter, TOTAL: _Total, PEAK: _Peak}
