"""The classes of a value's bytes, which decide where a caller of C or C++ puts it on x86-64: integer or not.

The types of the language do not tell it: a vector of four ints is an array there, `long double` is not there at all,
and nobody says how a struct is aligned. Sources: System V ABI, AMD64 supplement, 3.2.3;
Itanium C++ ABI, 2.3; DWARF 5, 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tracer.lang.types import Type, memory_size
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.unit import Entry

Kind = Literal["integer", "real", "vector", "x87"]
Class = Literal["", "integer", "real", "up", "x87"]
"""The classes of eight bytes: padding, in a general register, in a vector register, in the same one as the bytes
before, in memory.
"""

_STRONGEST_FIRST: tuple[Class, ...] = ("integer", "x87", "real", "up")
"""The class of fields that share eight bytes."""

_DEEPEST = 24
_REGISTERS_HOLD = 16
"""The most bytes of a struct in registers; longer ones are in memory."""

_LONGEST = 64
"""The most bytes of a scalar or a vector."""


class Leaf(NamedTuple):
    """A scalar in a value. A bit field has an alignment of 1: it may begin anywhere."""

    offset: int
    size: int
    kind: Kind
    align: int


class Shape(NamedTuple):
    """A type. Arrays and structs are aggregates of parts."""

    size: int
    align: int
    leaves: tuple[Leaf, ...]
    aggregate: bool = False

    @property
    def wide(self) -> bool:
        """Whether it is one vector longer than 16 bytes. The compiler's flags decide where that goes."""
        return len(self.leaves) == 1 and self.leaves[0].kind == "vector" and self.size > _REGISTERS_HOLD

    @property
    def in_memory(self) -> bool:
        """Whether it goes to memory for its form, as an argument and as a result."""
        if not self.aggregate:
            return False
        if self.size > _REGISTERS_HOLD or any(leaf.offset % leaf.align for leaf in self.leaves):
            return not self.wide
        return any(leaf.kind == "x87" for leaf in self.leaves) and len({leaf.kind for leaf in self.leaves}) > 1

    @property
    def classes(self) -> list[Class]:
        """The class of each eight bytes."""
        eightbytes: list[set[Class]] = [set() for _ in range(0, self.size, 8)]
        for leaf in self.leaves:
            first, last = leaf.offset // 8, (leaf.offset + leaf.size - 1) // 8
            for number in range(first, last + 1):
                eightbytes[number].add(_class(leaf.kind, number > first))
        merged: list[Class] = []
        for eightbyte in eightbytes:
            one: Class = next((name for name in _STRONGEST_FIRST if name in eightbyte), "")
            merged.append("real" if one == "up" and (not merged or merged[-1] not in ("real", "up")) else one)
        return merged


def shape_of_type(type: Type, leaves: Iterator[tuple[int, int, bool]]) -> Shape:
    """The shape of a type of the language, from the offsets and sizes of its scalars, and whether they are
    floating-point numbers.
    """
    scalars = tuple(Leaf(offset, size, "real" if real else "integer", max(size, 1)) for offset, size, real in leaves)
    align = max((leaf.align for leaf in scalars), default=1)
    return Shape(memory_size(type), align, scalars, len(scalars) != 1 or scalars[0].size != memory_size(type))


def shape_of(entry: Entry | None, deep: int = 0) -> Shape:
    """The shape of a type in debug information. Raises `types.UnknownType`."""
    entry = types.plain(entry)
    if entry is None or deep > _DEEPEST:
        raise types.UnknownType("it has no type")
    size = entry.number(dw.BYTE_SIZE, 0) or 0
    match entry.tag:
        case dw.BASE_TYPE:
            return _base(entry, size)
        case dw.POINTER | dw.REFERENCE | dw.RVALUE_REFERENCE | dw.UNSPECIFIED:  # the last is nullptr's
            return _scalar(entry.unit.address_size, "integer")
        case dw.ENUMERATION:
            return _scalar(size, "integer")
        case dw.POINTER_TO_MEMBER:
            word = entry.unit.address_size
            whole = Shape(2 * word, word, (Leaf(0, 2 * word, "integer", word),), True)
            return whole if types.to_function(entry) else _scalar(word, "integer")
        case dw.ARRAY:
            return _array(entry, deep + 1)
        case dw.STRUCTURE | dw.CLASS | dw.UNION:
            return _record(entry, deep + 1)
    raise types.UnknownType("a type that the language does not have")


def holds_nullptr(entry: Entry | None, deep: int = 0) -> bool:
    """Whether a record or an array has a member of nullptr's type."""
    kind = types.plain(entry)
    if kind is None or deep > _DEEPEST:
        return False
    if kind.tag == dw.ARRAY:
        return holds_nullptr(kind.follow(dw.TYPE), deep + 1)
    if kind.tag not in dw.RECORDS:
        return deep > 0 and kind.tag == dw.UNSPECIFIED
    members = (types.defined(kind) or kind).children()
    return any(
        holds_nullptr(member.follow(dw.TYPE), deep + 1)
        for member in members
        if member.tag in (dw.MEMBER, dw.INHERITANCE) and dw.EXTERNAL not in member
    )


def _class(kind: Kind, later: bool) -> Class:
    if kind == "vector":
        return "up" if later else "real"
    return kind


def _scalar(size: int, kind: Kind) -> Shape:
    if size > _LONGEST:
        raise types.UnknownType(f"a number of {size} bytes")
    return Shape(size, size, (Leaf(0, size, kind, size),) if size else ())


def _base(entry: Entry, size: int) -> Shape:
    encoding, name = entry.number(dw.ENCODING, 0), entry.text()
    if encoding == dw.COMPLEX_FLOAT:
        part = size // 2
        kind: Kind = "real" if part <= 8 else "x87"
        return Shape(size, part, tuple(Leaf(offset, part, kind, part) for offset in (0, part)))
    if encoding == dw.FLOAT and size > 8:
        return _scalar(size, "x87" if name == "long double" else "vector")
    return _scalar(size, "real" if encoding == dw.FLOAT else "integer")


def _array(entry: Entry, deep: int) -> Shape:
    item, count = shape_of(entry.follow(dw.TYPE), deep), 1
    for dimension in types.counts_of(entry):
        count *= dimension
    size = item.size * count
    if dw.GNU_VECTOR in entry:
        kind: Kind = "vector" if size > 8 else "real" if size > 4 else "integer"
        return Shape(size, size, (Leaf(0, size, kind, size),))
    return _aggregate(size, item.align, _moved(item, (index * item.size for index in range(min(count, 17)))))


def _record(entry: Entry, deep: int) -> Shape:
    definition = types.defined(entry)
    if definition is None:
        raise types.UnknownType(f"{types.spelling(entry)} is declared but never defined")
    leaves: list[Leaf] = []
    size, stated = definition.number(dw.BYTE_SIZE, 0) or 0, definition.number(dw.ALIGNMENT) or 1
    align, packed = stated, False
    for member in definition.children():
        if member.tag not in (dw.MEMBER, dw.INHERITANCE) or dw.EXTERNAL in member or dw.DECLARATION in member:
            continue
        inner, bits = shape_of(member.follow(dw.TYPE), deep), types.bits_of(member)
        if bits is None:
            offset = types.offset_of(member)
            if offset is None:
                continue  # a virtual base: the class is passed by its address
            leaves += _moved(inner, (offset,))
            member_align = member.number(dw.ALIGNMENT) or 1
            stated, align = max(stated, member_align), max(align, inner.align, member_align)
            packed = packed or offset % inner.align > 0
        else:
            first, width = bits
            start, end = first // 8, (first + width + 7) // 8
            leaves.append(Leaf(start, end - start, "integer", 1))
            align = max(align, inner.align)
    if not leaves and definition.tag == dw.UNION and size in (4, 8):
        # GCC describes some transparent unions without their members, as that of connect() in libc: such a union goes
        # where its first member would. An empty one has no byte in C, and one in C++.
        return _scalar(size, "integer")
    # Nobody says that a struct is packed, but it has what no other has.
    return _aggregate(size, stated if packed or size % align else align, leaves)


def _aggregate(size: int, align: int, leaves: Iterable[Leaf]) -> Shape:
    """The shape that the parts make. A value that is surely in memory needs none of them: there can be millions."""
    return Shape(size, align, tuple(leaves) if size <= _LONGEST else (), True)


def _moved(shape: Shape, offsets: Iterable[int]) -> Iterator[Leaf]:
    for offset in offsets:
        for leaf in shape.leaves:
            yield leaf._replace(offset=leaf.offset + offset)
