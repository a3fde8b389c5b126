"""Structs, unions and arrays as text and as JSON: a function for each type, made once, from their bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from tracer.dataclass import replace
from tracer.lang.types import (
    ArrayType,
    BoolType,
    CharType,
    Field,
    FloatType,
    IntType,
    StringType,
    StructType,
    Type,
    memory_size,
)

Show = Callable[[Any], bytes]
Of = Callable[[Type], Show]


def text(type: Type, of: Of) -> Show:
    """`{ .a = 1, .b = [2,3] }`, as bpftrace 0.27 writes them; `of` gives the function of a member's type."""
    if isinstance(type, ArrayType):
        return _items(type, of, b"[%b]", b",")
    return _members(type, of, b"{ %b }", b".%b = %b", _name)


def json(type: Type, of: Of, quoted: Callable[[bytes], bytes]) -> Show:
    """The same as JSON: objects and arrays; `quoted` makes a string of a name."""
    if isinstance(type, ArrayType):
        return _items(type, of, b"[%b]", b",")
    return _members(type, of, b"{%b}", b"%b: %b", lambda name: quoted(_name(name)))


def _name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _members(type: Type, of: Of, whole: bytes, one: bytes, name: Callable[[str], bytes]) -> Show:
    assert isinstance(type, StructType)
    parts = [(name(field.name), member(field), of(shown(field.type))) for field in _named(type)]
    return lambda value: whole % b", ".join([one % (name, show(read(value))) for name, read, show in parts])


def _named(type: StructType, offset: int = 0) -> Iterator[Field]:
    """The members, those of unnamed structs and unions in their place."""
    for field in type.fields:
        if not field.name and isinstance(field.type, StructType):
            yield from _named(field.type, offset + field.offset)
        else:
            yield replace(field, offset=offset + field.offset)


def _items(type: ArrayType, of: Of, whole: bytes, join: bytes) -> Show:
    size = memory_size(type.item)
    read, show = reader(type.item), of(shown(type.item))
    places = [size * index for index in range(type.count)]
    return lambda value: whole % join.join([show(read(value[at : at + size])) for at in places])


def shown(type: Type) -> Type:
    """The type as which a member is shown: an array of chars is a string."""
    if isinstance(type, ArrayType) and isinstance(type.item, CharType):
        return StringType(type.count + 1)
    return type


def member(field: Field) -> Callable[[bytes], Any]:
    """Reads a member from the bytes of its struct."""
    start, end = field.offset, field.offset + memory_size(field.type)
    read = reader(field.type)
    if not field.width:
        return lambda value: read(value[start:end])
    signed = isinstance(field.type, IntType) and field.type.signed
    mask, sign = (1 << field.width) - 1, (1 << (field.width - 1)) if signed else 0

    def bits(value: bytes) -> int:
        number = int.from_bytes(value[start:end], sys.byteorder) >> field.shift & mask
        return (number ^ sign) - sign

    return bits


def reader(type: Type) -> Callable[[bytes], Any]:
    """From the bytes of a value in memory to its form in `lang.types`."""
    match type:
        case IntType(signed=signed):
            return lambda raw: int.from_bytes(raw, sys.byteorder, signed=signed)
        case FloatType():
            return lambda raw: int.from_bytes(raw, sys.byteorder)
        case BoolType():
            return any
        case ArrayType(item=CharType()):
            return lambda raw: raw.partition(b"\0")[0]
        case _:
            return bytes
