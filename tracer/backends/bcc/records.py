"""Records: what a probe hands to user space through the ring, and how it is read back.

A record is words: the number of its `Record`, one word for each number, the length for each string, pid and length for
each stack, pid and address for each symbol; behind them the bytes of strings (with their NUL) and stacks, one after the
other, so that a short string takes little room however large its buffer. Tuples are spread out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Literal

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
)
from tracer.results.events import (
    Event,
    ExitEvent,
    MapEvent,
    PrintfEvent,
    TimeEvent,
    ValueEvent,
)

RecordKind = Literal["printf", "value", "time", "map", "clear", "zero", "exit"]


@dataclass(frozen=True, slots=True)
class Record:
    """What one statement sends. `index` is a format, a shape or the exit code; `types` those of the values.

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
    return 2 if isinstance(kind, StackType | SymbolType) else 1


def bytes_behind(kind: Type) -> int:
    """Bytes that a value can take behind the head."""
    match kind:
        case TupleType(items=items):
            return sum(map(bytes_behind, items))
        case StringType(size=size):
            return -(-size // 8) * 8  # it may be copied by words
        case StackType(frames=frames):
            return 8 * frames
        case _:
            return 0


Decoder = Callable[[bytes, int], Event]
"""From a record's bytes and the offset where it begins."""


def mark_in(data: bytes, at: int) -> int:
    """The mark in a record that has one (see `Record`)."""
    return int(struct.unpack_from("=Q", data, at + 8)[0])


def decoder(record: Record) -> Decoder:
    """How records are read; the session does it for those that have a mark."""
    match record.kind:
        case "printf":
            index = record.index
            values = _values(record.types)
            return lambda data, at: PrintfEvent(index, values(data, at))
        case "value":
            index = record.index
            values = _values(record.types)
            return lambda data, at: ValueEvent(index, values(data, at)[0])
        case _:
            event = control_event(record)
            return lambda data, at: event


BulkDecoder = Callable[[bytes, int], Iterator[Event]]
"""From the bytes of a uniform batch (see `ring.Batch`) and its stride to its events."""


def bulk_decoder(record: Record) -> BulkDecoder | None:
    """The quick way through many printf records of integers alone; None for other kinds."""
    if record.kind != "printf" or not all(isinstance(kind, IntType) for kind in record.types):
        return None
    index = record.index
    layout = "=16x" + "".join(map(_letters, record.types))
    size = struct.calcsize(layout)

    def events(data: bytes, stride: int) -> Iterator[Event]:
        rows = struct.Struct(f"{layout}{stride - size}x").iter_unpack(data)
        return map(PrintfEvent, repeat(index), rows)

    return events


def control_event(record: Record) -> Event:
    """The event of a record that carries no values."""
    match record.kind:
        case "map":
            return MapEvent(record.map, record.top, record.div)
        case "time":
            return TimeEvent(record.index)
        case _:
            return ExitEvent(record.index)


def _values(types: tuple[Type, ...]) -> Callable[[bytes, int], tuple[Value, ...]]:
    head = struct.Struct("=8x" + "".join(map(_letters, types)))
    if all(isinstance(kind, IntType) for kind in types):
        return head.unpack_from
    behind = head.size

    def values(data: bytes, at: int) -> tuple[Value, ...]:
        numbers = iter(head.unpack_from(data, at))
        place = at + behind

        def value(kind: Type) -> Value:
            nonlocal place
            number: int = 0
            if isinstance(kind, TupleType):
                return tuple(value(item) for item in kind.items)
            number = next(numbers)
            if isinstance(kind, StringType):
                start, place = place, place + number
                return data[start : place - 1] if number else b""
            if isinstance(kind, StackType):
                length = next(numbers)
                start, place = place, place + length
                return Stack(number, struct.unpack_from(f"={length // 8}Q", data, start))
            if isinstance(kind, SymbolType):
                return Symbol(number, next(numbers))
            return bool(number) if isinstance(kind, BoolType) else number

        return tuple([value(kind) for kind in types])

    if all(isinstance(kind, IntType | StringType) for kind in types):
        texts = tuple(isinstance(kind, StringType) for kind in types)

        def flat(data: bytes, at: int) -> tuple[Value, ...]:
            place = at + behind
            found: list[Value] = []
            for number, text in zip(head.unpack_from(data, at), texts, strict=True):
                if text:
                    found.append(data[place : place + number - 1] if number else b"")
                    place += number
                else:
                    found.append(number)
            return tuple(found)

        return flat
    return values


def _letters(kind: Type) -> str:
    match kind:
        case TupleType(items=items):
            return "".join(map(_letters, items))
        case StackType() | SymbolType():
            return "QQ"
        case IntType(signed=True):
            return "q"
        case _:
            return "Q"
