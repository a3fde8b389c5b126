"""The layout of structs and unions: the System V ABI of x86-64 and of aarch64, as gcc follows it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tracer.dataclass import NamedTuple
from tracer.lang.types import ArrayType, BoolType, Field, IntType, StructType, Type, memory_size
from tracer.lang.types.sizes import bit_field

_UNNAMED_BITS_ALIGN = os.uname().machine == "aarch64"
"""AAPCS64 10.1.8.2: there the type of an unnamed bit field counts for the alignment of its holder."""


class Sized(NamedTuple):
    """A type of C with its alignment in bytes. `type` is None for void and functions; an incomplete type has the
    alignment 0, and is a `NamedType` where it may be completed later.
    """

    type: Type | None
    align: int


class Member(NamedTuple):
    """A member as it is declared: `width` in bits is None where it is no bit field, `align` what its own attribute
    asks for, 0 without one.
    """

    name: str
    of: Sized
    width: int | None = None
    align: int = 0
    packed: bool = False


class Attributes(NamedTuple):
    """`__attribute__((packed, aligned(n)))`, the bits of `mode(…)`, and `#pragma pack(n)`; 0 where nothing is said."""

    packed: bool = False
    align: int = 0
    bits: int = 0
    pack: int = 0

    def with_(self, other: Attributes) -> Attributes:
        """The attributes of both."""
        return Attributes(
            self.packed or other.packed, max(self.align, other.align), other.bits or self.bits, other.pack or self.pack
        )


def laid_out(name: str, union: bool, members: Iterable[Member], attributes: Attributes) -> Sized:
    """The struct or union with the place of each member. Raises `ValueError` for a bit field that no integer holds."""
    fields: list[tuple[Member, int]] = []
    bits = most = 0
    align = 1
    for member in members:
        bits = 0 if union else bits
        alignment = _alignment(member, attributes)
        size = memory_size(member.of.type) * 8 if member.of.type is not None else 0
        if member.width is None:
            bits = _up(bits, alignment * 8)
            align = max(align, alignment)
            fields.append((member, bits))
            bits += size
        elif member.width == 0:
            bits = _up(bits, max(member.of.align, member.align) * 8)
            align = max(align, alignment) if _UNNAMED_BITS_ALIGN else align
        else:
            if member.align:
                bits = _up(bits, member.align * 8)
            natural = min(member.of.align, attributes.pack or member.of.align) * 8
            if not (attributes.packed or member.packed) and bits % natural + member.width > size:
                bits = _up(bits, natural)
            if member.name or _UNNAMED_BITS_ALIGN:
                align = max(align, alignment)
            if member.name:
                fields.append((member, bits))
            bits += member.width
        most = max(most, bits)
    align = max(align, attributes.align)
    size = _up(-(-most // 8), align)
    return Sized(StructType(name, size, tuple(_field(member, bit, size) for member, bit in fields)), align)


def _alignment(member: Member, attributes: Attributes) -> int:
    packed = attributes.packed or member.packed
    natural = 1 if packed else member.of.align
    align = max(natural, member.align)
    return min(align, attributes.pack) if attributes.pack else align


def _field(member: Member, bit: int, size: int) -> Field:
    type = member.of.type
    assert type is not None
    if member.width is None:
        return Field(member.name, type, bit // 8)
    assert isinstance(type, IntType | BoolType)
    field = bit_field(member.name, type, bit, member.width, size)
    if field is None:
        raise ValueError(member.name)
    return field


def array(item: Sized, count: int) -> Sized:
    """`count` of them one behind the other."""
    assert item.type is not None
    return Sized(ArrayType(item.type, count), item.align)


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple if multiple else number
