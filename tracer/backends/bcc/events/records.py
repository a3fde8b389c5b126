"""Records: what a probe hands to user space through the ring, and how it is read back.

A record is words: the number of its `Record`, one word for each number, the length for each string, pid and length for
each stack, pid and address for each symbol, all of a struct or array; behind them the bytes of strings (with their NUL)
and stacks, one after the other, so that a short string takes little room however large its buffer. Tuples are spread
out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Literal, cast

from tracer.dataclass import dataclass
from tracer.lang.types import (
    BoolType,
    IntType,
    Stack,
    StackType,
    StringType,
    Symbol,
    SymbolType,
    TupleType,
    Type,
    Value,
    is_block,
    memory_size,
)
from tracer.results.events import Event, ExitEvent, MapEvent, TimeEvent

RecordKind = Literal["printf", "value", "sample", "time", "map", "clear", "zero", "exit", "stack", "python"]


@dataclass(frozen=True, slots=True)
class Record:
    """The record that one statement sends. `index` is a format, a shape or the exit code, where that is known; `types`
    those of the values: of a sample the key, the moment and the value, of an exit the code that is not known before.

    Records that name a map which probes clear have its mark as their only word; `ended`: a clear or zero has just ended
    what is to be printed.
    """

    kind: RecordKind
    index: int = 0
    types: tuple[Type, ...] = ()
    map: str = ""
    top: int = 0
    div: int = 0
    ended: bool = False


def words_of(kind: Type) -> int:
    """Words that a value takes in the record's head."""
    if isinstance(kind, TupleType):
        return sum(map(words_of, kind.items))
    if is_block(kind):
        return -(-memory_size(kind) // 8)
    return 2 if isinstance(kind, StackType | SymbolType) else 1


def bytes_behind(kind: Type) -> int:
    """Bytes that a value can take behind the head."""
    match kind:
        case TupleType(items=items):
            return sum(map(bytes_behind, items))
        case StringType(size=size):
            return -(-size // 8) * 8  # it may be copied by words
        case StackType(words=words):
            return 8 * words
        case _:
            return 0


Decode = Callable[[bytes, int], tuple[Value, ...]]
"""From a record's bytes and the offset where it begins to its values."""


def mark_in(data: bytes, offset: int) -> int:
    """The mark in a record that has one (see `Record`)."""
    return int(struct.unpack_from("=Q", data, offset + 8)[0])


def control_event(record: Record) -> Event:
    """The event of a record that carries no values."""
    match record.kind:
        case "map":
            return MapEvent(record.map, record.top, record.div)
        case "time":
            return TimeEvent(record.index)
        case _:
            return ExitEvent(record.index)


def rows_of(record: Record) -> Callable[[bytes, int], Iterator[tuple[Value, ...]]] | None:
    """The quick way to the values of many records of integers alone, which follow each other at a fixed distance (the
    second argument): their function; None for other types.
    """
    if not all(isinstance(kind, IntType) for kind in record.types):
        return None
    layout = "=16x" + "".join(map(_letters, record.types))
    size = struct.calcsize(layout)
    return lambda data, stride: struct.Struct(f"{layout}{stride - size}x").iter_unpack(data)


def decoder(types: tuple[Type, ...]) -> Decode:
    """The decoder of records' values: a function written for their types."""
    head = struct.Struct("=8x" + "".join(map(_letters, types)))
    if all(isinstance(kind, IntType) for kind in types):
        return head.unpack_from
    writer = _Writer()
    values = "".join(f"{writer.value(kind)}, " for kind in types)
    # The text holds only numbers and names that are made here.
    text = f"""def decode(data, at):
    {"".join(f"n{number}, " for number in range(writer.numbers))}= head(data, at)
    b0 = at + {head.size}
    {"; ".join(writer.lines) or "pass"}
    return ({values})
"""
    names = {"head": head.unpack_from, "Stack": Stack, "Symbol": Symbol, "frames": _frames}
    exec(compile(text, "<bcc decode>", "exec"), names)
    return cast("Decode", names["decode"])


class _Writer:
    """Counts the numbers of a head and the parts behind it while the expressions of values are written."""

    def __init__(self) -> None:
        self.numbers = 0
        self.lines: list[str] = []

    def value(self, kind: Type) -> str:
        """The expression of the next value."""
        if isinstance(kind, TupleType):
            return f"({''.join(f'{self.value(item)}, ' for item in kind.items)})"
        number = self._number()
        if isinstance(kind, StringType):
            start, end = self._part(number)
            return f"data[{start} : {end} - 1]"
        if isinstance(kind, StackType):
            length = self._number()
            start, _ = self._part(length)
            return f"Stack({number}, frames(data, {start}, {length}))"
        if isinstance(kind, SymbolType):
            return f"Symbol({number}, {self._number()})"
        if is_block(kind):
            return f"{number}[:{memory_size(kind)}]"
        return f"{number} != 0" if isinstance(kind, BoolType) else number

    def _number(self) -> str:
        self.numbers += 1
        return f"n{self.numbers - 1}"

    def _part(self, length: str) -> tuple[str, str]:
        """The beginning and end of the next part behind the head."""
        start, end = f"b{len(self.lines)}", f"b{len(self.lines) + 1}"
        self.lines.append(f"{end} = {start} + {length}")
        return start, end


def _frames(data: bytes, offset: int, length: int) -> tuple[int, ...]:
    return struct.unpack_from(f"={length // 8}Q", data, offset)


def _letters(kind: Type) -> str:
    match kind:
        case TupleType(items=items):
            return "".join(map(_letters, items))
        case StackType() | SymbolType():
            return "QQ"
        case _ if is_block(kind):
            return f"{8 * words_of(kind)}s"
        case IntType(signed=True):
            return "q"
        case _:
            return "Q"
