"""Turns entries of debug information into types of the language.

What a pointer leads to stays a name and a place until somebody reads there.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracer.errors import TracerError
from tracer.lang.types import (
    ArrayType,
    CharType,
    EnumType,
    Field,
    FloatType,
    IntType,
    NamedType,
    PointerType,
    StructType,
    Type,
    memory_size,
)
from tracer.lang.types.operations import wrap
from tracer.lang.types.sizes import bit_field
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.scopes import definitions, scope, shape
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import file_of
from tracer.resolve.dwarf.units.names import named
from tracer.resolve.dwarf.units.unit import Entry

_WORDS = {dw.STRUCTURE: "struct ", dw.CLASS: "struct ", dw.UNION: "union ", dw.ENUMERATION: "enum "}
_DEEPEST = 24
_MOST_FIELDS, _MOST_BYTES = 4096, 1 << 31
_BYTE = IntType(8, False)


class UnknownType(TracerError):
    """A type that the language does not have."""


def signed(entry: Entry | None) -> Entry | None:
    """A type. Where only its signature stands here, it is read from its own unit."""
    if entry is None or entry.tag not in _WORDS or dw.SIGNATURE not in entry:
        return entry
    return entry.follow(dw.SIGNATURE) or entry


def plain(entry: Entry | None) -> Entry | None:
    """The type behind typedefs and qualifiers, None for void."""
    for _ in range(_DEEPEST):
        if entry is None or not (entry.tag == dw.TYPEDEF or entry.tag in dw.QUALIFIERS):
            return signed(entry)
        entry = entry.follow(dw.TYPE)
    return None


def type_of(entry: Entry | None, key: str, name: str = "", deep: int = 0) -> Type:
    """The type of an entry. `key` names the file in `NamedType.place`; `name` is the typedef's by which it was reached.
    Raises `UnknownType`.
    """
    entry, name, deep = _behind_names(entry, name, deep)
    if entry is None:
        raise UnknownType("it has no type")
    entry = signed(entry) or entry
    size = entry.number(dw.BYTE_SIZE, 0) or 0
    match entry.tag:
        case dw.BASE_TYPE:
            return _base(entry, size)
        case dw.POINTER | dw.REFERENCE | dw.RVALUE_REFERENCE:
            return PointerType(8 * entry.unit.address_size, target=_target(entry.follow(dw.TYPE), key, deep + 1))
        case dw.ENUMERATION:
            return _enumeration(entry, size, name)
        case dw.ARRAY:
            return _array(entry, key, deep + 1)
        case dw.STRUCTURE | dw.CLASS | dw.UNION:
            return _record(entry, key, name, size, deep + 1)
        case dw.POINTER_TO_MEMBER:
            return _block(entry.unit.address_size * (2 if to_function(entry) else 1))
    raise UnknownType("a type that the language does not have")


def _behind_names(entry: Entry | None, name: str, deep: int) -> tuple[Entry | None, str, int]:
    """The type behind typedefs and qualifiers, None for void or one that lies too deep; the name of the innermost
    typedef, or `name` where there is none; and the depth.
    """
    while entry is not None and deep <= _DEEPEST and (entry.tag == dw.TYPEDEF or entry.tag in dw.QUALIFIERS):
        deep += 1
        name = entry.text() or name if entry.tag == dw.TYPEDEF else name
        entry = entry.follow(dw.TYPE)
    return entry if deep <= _DEEPEST else None, name, deep


def to_function(entry: Entry) -> bool:
    """Whether a pointer to a member of C++ leads to a function, and so has two words."""
    below = plain(entry.follow(dw.TYPE))
    return below is not None and below.tag == dw.SUBROUTINE_TYPE


def counts_of(array: Entry) -> list[int]:
    """The number of items of an array in each dimension; 0 where that is not known before the program runs."""
    counts = []
    for child in array.children():
        if child.tag == dw.SUBRANGE:
            last = child.signed(dw.UPPER_BOUND)
            count = child.number(dw.COUNT) if dw.COUNT in child else 0 if last is None else last + 1
            counts.append(max(count or 0, 0))
    return counts


def bits_of(member: Entry) -> tuple[int, int] | None:
    """The first bit of a bit field, counted from the start of its struct, and the number of its bits; None for another
    member.
    """
    width = member.number(dw.BIT_SIZE)
    if not width:
        return None
    if dw.DATA_BIT_OFFSET in member:
        return member.number(dw.DATA_BIT_OFFSET, 0) or 0, width
    # Until DWARF 3 it is counted from the highest bit of the storage.
    kind = plain(member.follow(dw.TYPE))
    storage = member.number(dw.BYTE_SIZE) or (kind.number(dw.BYTE_SIZE, 0) if kind is not None else 0) or 0
    return 8 * (offset_of(member) or 0) + 8 * storage - (member.signed(dw.BIT_OFFSET) or 0) - width, width


def defined(entry: Entry) -> Entry | None:
    """The definition of a type that may only be declared here; None where it has none, or several that differ."""
    entry = signed(entry) or entry
    if dw.DECLARATION not in entry:
        return entry
    name = entry.text()
    if not name:
        return None
    tags = dw.RECORDS if entry.tag in dw.RECORDS else frozenset((entry.tag,))
    where = scope(entry)
    for candidates in (named(file_of(entry), name, tags, entry.unit), definitions(file_of(entry), name, tags)):
        different = {shape(candidate): candidate for candidate in candidates if scope(candidate) == where}
        if different:
            return next(iter(different.values())) if len(different) == 1 else None
    return None


def spelling(entry: Entry | None, deep: int = 0) -> str:
    """A type as `list -v` shows it, which is as bpftrace writes it."""
    if entry is None or deep > _DEEPEST:
        return "void"
    entry, inner = signed(entry) or entry, entry.follow(dw.TYPE)
    if entry.tag in (dw.BASE_TYPE, dw.TYPEDEF):
        return entry.text()
    if entry.tag == dw.POINTER:
        return f"{spelling(inner, deep + 1)}*"
    if entry.tag in dw.REFERENCES:
        return f"{spelling(inner, deep + 1)}{'&' if entry.tag == dw.REFERENCE else '&&'}"
    if entry.tag == dw.ARRAY:
        return spelling(inner, deep + 1) + "".join(f"[{count or ''}]" for count in counts_of(entry))
    if entry.tag in _WORDS:
        return _WORDS[entry.tag] + (entry.text() or "<anonymous>")
    if entry.tag in (dw.CONST, dw.VOLATILE):
        return f"{'const' if entry.tag == dw.CONST else 'volatile'} {spelling(inner, deep + 1)}"
    return "<unknown type>"


def _base(entry: Entry, size: int) -> Type:
    encoding = entry.number(dw.ENCODING, 0)
    if encoding == dw.FLOAT and size in (4, 8):
        return FloatType(8 * size)
    if encoding == dw.ADDRESS:
        return PointerType(8 * size if size in (4, 8) else 64)
    if encoding in (dw.BOOLEAN, dw.SIGNED, dw.SIGNED_CHAR, dw.UNSIGNED, dw.UNSIGNED_CHAR, dw.UTF):
        if size == 1 and (encoding == dw.SIGNED_CHAR or entry.text() == "char"):
            return CharType()
        if size in (1, 2, 4, 8):
            return IntType(8 * size, encoding in (dw.SIGNED, dw.SIGNED_CHAR))
        if size == 16:
            return ArrayType(IntType(64, False), 2)
        if size == 0:
            return StructType(entry.text(), 0, ())  # Rust's ()
    raise UnknownType(f"the type {entry.text() or 'without a name'} is not known")


def _enumeration(entry: Entry, size: int, name: str) -> EnumType:
    entry = defined(entry) or entry
    words = tuple([(child.text(), child.signed(dw.CONST_VALUE) or 0) for child in entry.children()])[:_MOST_FIELDS]
    below = plain(entry.follow(dw.TYPE))
    kind = _base(below, below.number(dw.BYTE_SIZE, 0) or 0) if below is not None and below.tag == dw.BASE_TYPE else None
    if not isinstance(kind, IntType):
        if size not in (1, 2, 4, 8):
            raise UnknownType("an enum of an unusual size")
        kind = IntType(8 * size, any(value < 0 for _, value in words))
    words = tuple([(word, wrap(value, kind)) for word, value in words])
    return EnumType(kind.bits, kind.signed, f"enum {entry.text() or name}".strip(), words)


def _target(entry: Entry | None, key: str, deep: int) -> Type | None:
    """The type that a pointer points to; None if it is unknown."""
    entry, name, deep = _behind_names(entry, "", deep)
    if entry is None or entry.tag in (dw.SUBROUTINE_TYPE, dw.UNSPECIFIED):
        return None
    if entry.tag in dw.RECORDS:
        entry = signed(entry) or entry
        record_name = entry.text()
        return NamedType(_WORDS[entry.tag] + record_name if record_name else name or "struct", (key, entry.id))
    try:
        return type_of(entry, key, deep=deep)
    except UnknownType:
        return None


def _array(entry: Entry, key: str, deep: int) -> Type:
    item = type_of(entry.follow(dw.TYPE), key, deep=deep)
    for count in reversed(counts_of(entry)):
        item = ArrayType(item, count if count * max(memory_size(item), 1) <= _MOST_BYTES else 0)
    return item


def _record(entry: Entry, key: str, name: str, size: int, deep: int) -> StructType:
    definition = defined(entry)
    if definition is None:
        raise UnknownType(f"{_WORDS[entry.tag]}{entry.text() or name} is declared but never defined")
    if definition is not entry:
        size = definition.number(dw.BYTE_SIZE, 0) or 0
    word, record_name = _WORDS[definition.tag], definition.text()
    fields = tuple(_fields(definition, key, deep))[:_MOST_FIELDS]
    return StructType(word + record_name if record_name else name or word.strip(), size, fields)


def _fields(entry: Entry, key: str, deep: int) -> Iterator[Field]:
    inherited: list[Field] = []
    members: list[Field] = []
    size = entry.number(dw.BYTE_SIZE, 0) or 0
    for child in entry.children():
        if child.tag == dw.INHERITANCE:
            offset = offset_of(child)
            base = _type_or_none(child, key, deep)
            if offset is not None and isinstance(base, StructType):
                inherited += [Field(f.name, f.type, f.offset + offset, f.shift, f.width) for f in base.fields]
        elif child.tag == dw.MEMBER:
            members += _member(child, key, deep, size=size)
        elif child.tag == dw.VARIANT_PART:
            members += _variants(child, key, deep)
    taken = {field.name for field in members if field.name}
    # A tuple of the C++ library inherits members of one name, an empty one for what takes no room.
    full = {field.name for field in inherited if not _is_empty(field.type)}
    for field in inherited:
        if field.name not in taken and not (_is_empty(field.type) and field.name in full):
            yield field
    yield from members


def _member(entry: Entry, key: str, deep: int, name: str = "", size: int = 0) -> list[Field]:
    artificial = dw.ARTIFICIAL in entry and not name
    if dw.EXTERNAL in entry or dw.DECLARATION in entry or artificial:
        return []  # a static member, or a pointer to C++'s virtual functions
    type = _type_or_none(entry, key, deep)
    if type is None:
        return []
    name = entry.text() or name
    bits = bits_of(entry)
    if bits is not None:
        held = bit_field(name, type, *bits, size) if isinstance(type, IntType) and type.bits >= bits[1] else None
        return [] if held is None else [held]
    offset = offset_of(entry)
    return [] if offset is None else [Field(name, type, offset)]


def _variants(entry: Entry, key: str, deep: int) -> Iterator[Field]:
    """The variants of an enum of Rust, each a member of its name, and what tells which one it is."""
    chosen = entry.follow(dw.DISCR)
    if chosen is not None:
        yield from _member(chosen, key, deep, "discriminant")
    for variant in entry.children():
        if variant.tag == dw.VARIANT:
            for member in variant.children():
                if member.tag == dw.MEMBER:
                    yield from _member(member, key, deep)


def offset_of(entry: Entry) -> int | None:
    """The offset at which a member begins; None where that is computed, as for a virtual base."""
    location = entry.raw(dw.MEMBER_LOCATION)
    if location is None:
        return 0
    value = location[1]
    if isinstance(value, int):
        return value
    if value[:1] == b"\x23":  # DW_OP_plus_uconst
        number, end = leb(value, 1)
        return number if end == len(value) else None
    return None


def _is_empty(type: Type) -> bool:
    return isinstance(type, StructType) and not type.fields


def _type_or_none(entry: Entry, key: str, deep: int) -> Type | None:
    try:
        return type_of(entry.follow(dw.TYPE), key, deep=deep)
    except UnknownType:
        below = plain(entry.follow(dw.TYPE))
        if below is not None and below.tag in dw.RECORDS and dw.DECLARATION in below:
            return StructType(_WORDS[below.tag] + below.text(), 0, ())  # clang leaves out what other files describe
        size = below.number(dw.BYTE_SIZE, 0) if below is not None else 0
        return _block(size) if size and size < _MOST_BYTES else None


def _block(size: int) -> Type:
    return ArrayType(_BYTE, size)
