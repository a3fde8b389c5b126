"""Structs, unions and arrays as text and as JSON: a function for each type, made once, from their bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from tracer.dataclass import replace
from tracer.errors import printable
from tracer.lang.types import (
    ArrayType,
    BoolType,
    BufferType,
    CharType,
    Field,
    FloatType,
    InetType,
    IntType,
    MacType,
    StringType,
    StructType,
    Type,
    memory_size,
)

Show = Callable[[Any], bytes]
Of = Callable[[Type], Show]


def text(type: Type, of: Of) -> Show:
    """`{ .a = 1, .b = [2,3] }`, as bpftrace 0.27 writes them; `of` gives the function of a member's type."""
    if type.__class__ in _SPECIAL:
        return _SPECIAL[type.__class__]
    if isinstance(type, ArrayType):
        return _items(type, of, b"[%b]", b",")
    return _members(type, of, b"{ %b }", b".%b = %b", lambda name: printable(name).encode())


def json(type: Type, of: Of, quoted: Callable[[bytes], bytes]) -> Show:
    """The function for a block as JSON: objects and arrays; `quoted` makes a string of a name."""
    if isinstance(type, BufferType):
        # As int8 numbers, as bpftrace does.
        return lambda value: b"[%b]" % b",".join([b"%d" % byte for byte in memoryview(content(value)).cast("b")])
    if type.__class__ in _SPECIAL:
        shown = _SPECIAL[type.__class__]
        return lambda value: quoted(shown(value))
    if isinstance(type, ArrayType):
        return _items(type, of, b"[%b]", b",")
    return _members(type, of, b"{%b}", b"%b: %b", lambda name: quoted(name.encode("utf-8", "surrogateescape")))


def content(buffer: bytes) -> bytes:
    """The bytes of a buffer."""
    length = int.from_bytes(buffer[:8], sys.byteorder)
    return buffer[8 : 8 + length]


def escaped(buffer: bytes) -> bytes:
    """The bytes of a buffer; those that are no printable ASCII as escapes, in hexadecimal."""
    return b"".join([b"%c" % byte if 0x20 <= byte < 0x7F else b"\\x%02x" % byte for byte in content(buffer)])


def _address(inet: bytes) -> bytes:
    from socket import AF_INET, AF_INET6, inet_ntop

    if int.from_bytes(inet[:8], sys.byteorder) == AF_INET6:
        return inet_ntop(AF_INET6, inet[8:24]).encode()
    return inet_ntop(AF_INET, inet[8:12]).encode()


def _hardware_address(mac: bytes) -> bytes:
    return mac.hex(":").upper().encode()


_SPECIAL: dict[type, Show] = {BufferType: escaped, InetType: _address, MacType: _hardware_address}


def _members(type: Type, of: Of, whole: bytes, one: bytes, name: Callable[[str], bytes]) -> Show:
    assert isinstance(type, StructType)
    parts = [(name(field.name), member(field), of(shown(field.type))) for field in named(type)]
    return lambda value: whole % b", ".join([one % (name, show(read(value))) for name, read, show in parts])


def named(type: StructType, offset: int = 0) -> Iterator[Field]:
    """The members, those of unnamed structs and unions in their place."""
    for field in type.fields:
        if not field.name and isinstance(field.type, StructType):
            yield from named(field.type, offset + field.offset)
        else:
            yield replace(field, offset=offset + field.offset)


def _items(type: ArrayType, of: Of, whole: bytes, join: bytes) -> Show:
    size = memory_size(type.item)
    read, show = reader(type.item), of(shown(type.item))
    places = [size * index for index in range(type.count)]
    return lambda value: whole % join.join([show(read(value[start : start + size])) for start in places])


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
    """The function from the bytes of a value in memory to its form in `lang.types`."""
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
