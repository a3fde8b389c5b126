"""Values of a traced program as Python's own: what the iterator of a trace and its maps hold.

| a value of the language | in Python |
|---|---|
| integer, pointer | `int` |
| enumerator | `Enumerator`, an `int` with its name |
| bool, float | `bool`, `float` |
| string, address of a network, name of a user or control group, time | `str` (bytes that are not UTF-8 as surrogates) |
| buffer | `bytes` |
| tuple, array | `tuple` |
| record, struct | `dict` of its members |
| `ustack` | `Stack`, a tuple of `Frame`, innermost first |
| `usym` | `Frame` |
| count, sum, min, max, avg, quantile | `int` |
| stats, and others of several numbers | `dict` |
| hist, lhist | tuple of `Bucket` |
| tseries | tuple of intervals: when each began (ns since 1970), and what it has, None for nothing |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tracer.lang.aggregations.aggregation import Series
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.fixed_width import quotient
from tracer.lang.types import (
    ArrayType,
    BoolType,
    BufferType,
    EnumType,
    FloatType,
    InetType,
    IntType,
    MacType,
    StackType,
    StringType,
    StructType,
    SymbolType,
    TupleType,
    Type,
    memory_size,
)
from tracer.render import blocks, floats
from tracer.render.value_text import Symbolizer, ValueText, frames_of
from tracer.results.order import ordered
from tracer.results.values import MapSnapshot

Plain = Callable[[Any], Any]


class Enumerator(int):
    """A number of an enumeration; `name` is its first enumerator, None where it has none."""

    name: str | None = None


class Frame(NamedTuple):
    """A place in the code of a process: the name of its function and how far into it, as text (`main+12`), the address,
    and the file that is mapped there.
    """

    name: str
    address: int
    path: str | None

    def __str__(self) -> str:
        return self.name


class Stack(tuple[Frame, ...]):
    """The frames of a stack, innermost first."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))


class Values:
    """Makes values plain; `symbols` names addresses."""

    def __init__(self, text: ValueText, symbols: Symbolizer) -> None:
        self._text = text
        self._symbols = symbols

    def of(self, type: Type) -> Plain:
        """The function for a type."""
        match type:
            case EnumType():
                return lambda value: _enumerator(type, value)
            case IntType():
                return int
            case BoolType():
                return bool
            case FloatType(bits=bits):
                return lambda raw: floats.number(raw, bits)
            case BufferType():
                return blocks.content
            case ArrayType() if not isinstance(type, InetType | MacType):
                return self._items(type)
            case StructType():
                return self._members(type)
            case TupleType(items=items, names=names):
                parts = [self.of(item) for item in items]
                if names:
                    return lambda value: {n: of(v) for n, of, v in zip(names, parts, value, strict=True)}
                return lambda value: tuple([of(v) for of, v in zip(parts, value, strict=True)])
            case StackType():
                return self._stack
            case SymbolType():
                return lambda symbol: self._frame(symbol.pid, symbol.address, False, offset=False)
            case StringType():
                return _decoded
            case _:
                shown = self._text.of(type)
                return lambda value: _decoded(shown(value))

    def map(self, snapshot: MapSnapshot, top: int = 0, div: int = 0) -> Any:
        """The content of a map: a dictionary in printing order, or where it has no key its value (None of an empty
        one). Of its entries the last `top`, or all for 0; numbers divided by `div`, if not 0.
        """
        decl = snapshot.decl
        if decl.kind == "scalar":
            plain, divides = self.of(decl.value), div > 1 and isinstance(decl.value, IntType)

            def value(held: Any) -> Any:
                return quotient(held, div) if divides else plain(held)

        else:
            aggregation = AGGREGATIONS[decl.kind]

            def value(held: Any) -> Any:
                parts = aggregation.parts(decl, held, div or 1)
                if isinstance(parts, list):
                    return tuple(parts)
                return parts.intervals if isinstance(parts, Series) else parts

        entries = ordered(snapshot, top)
        if not decl.key:
            return value(entries[0][1]) if entries else None
        keys = [self.of(type) for type in decl.key]
        if len(keys) == 1:
            return {keys[0](key[0]): value(held) for key, held in entries}
        return {tuple([of(k) for of, k in zip(keys, key, strict=True)]): value(held) for key, held in entries}

    def _stack(self, stack: Any) -> Stack:
        return Stack(self._frame(stack.pid, address, returned) for address, returned in frames_of(stack, self._symbols))

    def _frame(self, pid: int, address: int, returned: bool, offset: bool = True) -> Frame:
        named = self._symbols.frame(pid, address, returned) if offset else self._symbols.symbol(pid, address)
        return Frame(named, address, self._symbols.path(pid, address))

    def _items(self, type: ArrayType) -> Plain:
        size, read, of = memory_size(type.item), blocks.reader(type.item), self.of(blocks.shown(type.item))
        places = [size * index for index in range(type.count)]
        return lambda value: tuple([of(read(value[start : start + size])) for start in places])

    def _members(self, type: StructType) -> Plain:
        parts = [(field.name, blocks.member(field), self.of(blocks.shown(field.type))) for field in blocks.named(type)]
        return lambda value: {name: of(read(value)) for name, read, of in parts}


def _enumerator(type: EnumType, value: int) -> Enumerator:
    enumerator = Enumerator(value)
    enumerator.name = type.word(value) or None
    return enumerator


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")

