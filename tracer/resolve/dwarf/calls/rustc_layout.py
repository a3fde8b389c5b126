"""rustc lays out a value, as far as its own calling convention asks, as one or two scalars or as memory.

Debug information tells the members of a type, and so nearly always all of it. Source: rustc,
compiler/rustc_abi/src/layout.rs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.unit import Entry

_DEEPEST = 24
_WORD = 8


Sort = Literal["signed", "unsigned", "pointer", "real"]


class Scalar(NamedTuple):
    """A number or an address in a value; `sort` tells apart what rustc's layouts do."""

    offset: int
    size: int
    sort: Sort


class Form(NamedTuple):
    """A value: one or two `scalars`; or none, and then it is in memory, or, without a size, nowhere. Where that is not
    `certain`, it may be either.
    """

    size: int
    align: int
    scalars: tuple[Scalar, ...] = ()
    certain: bool = True


_Fields = Sequence[tuple[int, Form]]


def form_of(entry: Entry | None, deep: int = 0) -> Form:
    """The form of a type in debug information. Raises `types.UnknownType`."""
    entry = types.plain(entry)
    if entry is None or deep > _DEEPEST:
        raise types.UnknownType("it has no type")
    size = entry.number(dw.BYTE_SIZE, 0) or 0
    match entry.tag:
        case dw.POINTER:
            return Form(_WORD, _WORD, (Scalar(0, _WORD, "pointer"),))
        case dw.BASE_TYPE | dw.ENUMERATION if not size:
            return Form(0, 1)
        case dw.BASE_TYPE | dw.ENUMERATION if size > 2 * _WORD:
            raise types.UnknownType(f"a number of {size} bytes")
        case dw.BASE_TYPE | dw.ENUMERATION:
            below = types.plain(entry.follow(dw.TYPE)) if entry.tag == dw.ENUMERATION else entry
            encoding = below.number(dw.ENCODING, 0) if below is not None else 0
            sort: Sort = "real" if encoding == dw.FLOAT else "signed" if encoding == dw.SIGNED else "unsigned"
            return Form(size, size, (Scalar(0, size, sort),))
        case dw.ARRAY:
            item = form_of(entry.follow(dw.TYPE), deep + 1)
            for count in types.counts_of(entry):
                size = (size or item.size) * count
            return Form(size, item.align)
        case dw.STRUCTURE:
            return _struct(entry, size, deep + 1)
        case dw.UNION:
            return _union(entry, size, deep + 1)
    raise types.UnknownType("a type that the language does not have")


def is_direct(entry: Entry | None) -> bool:
    """Whether a parameter of that type is surely not passed by its address."""
    try:
        form = form_of(entry)
    except types.UnknownType:
        return False
    return form.size <= _WORD or bool(form.scalars)


def _struct(entry: Entry, size: int, deep: int) -> Form:
    part = next((child for child in entry.children() if child.tag == dw.VARIANT_PART), None)
    if part is None:
        fields = list(_fields(entry, deep))
        return _of_fields(fields, size, _align(entry, fields))
    variants = [
        list(_fields(kind, deep))
        for variant in part.children() if variant.tag == dw.VARIANT
        for member in variant.children()
        if member.tag == dw.MEMBER and (kind := types.plain(member.follow(dw.TYPE))) is not None
    ]  # fmt: skip
    filled = [fields for fields in variants if fields]
    align = _align(entry, [field for fields in filled for field in fields])
    tag = part.follow(dw.DISCR)
    if entry.text().startswith("{"):
        return Form(size, align)  # the state of a coroutine
    if tag is None:
        return _of_fields(filled[0] if len(filled) == 1 else [], size, align)
    offset = types.offset_of(tag) or 0
    tag_form = form_of(tag.follow(dw.TYPE), deep)
    end = offset + tag_form.size
    if any(start < end and offset < start + form.size for fields in filled for start, form in fields):
        # What no value of the largest variant has tells the others.
        return _of_fields(filled[0], size, align) if len(filled) == 1 else Form(size, align)
    if tag_form.size == size:
        return tag_form
    return _tagged(offset, tag_form, filled, size, align)


def _tagged(offset: int, tag: Form, variants: Sequence[_Fields], size: int, align: int) -> Form:
    """The form of an enum with a tag of its own: two scalars where each variant has only one, all in one place."""
    if any(len(fields) != 1 for fields in variants):
        return Form(size, align)
    scalars = {(start + form.scalars[0].offset, *form.scalars[0][1:]) for ((start, form),) in variants if form.scalars}
    certain = all(form.certain for ((_, form),) in variants)
    alone = all(len(form.scalars) == 1 for ((_, form),) in variants)
    if certain and not (alone and len({scalar[:2] for scalar in scalars}) == 1):
        return Form(size, align)
    if not certain or len(scalars) > 1:  # of different signs: it depends on the compiler's version
        return Form(size, align, certain=False)
    ((start, form),) = variants[0]
    return _of_fields([(offset, tag), (start, form)], size, align)


def _union(entry: Entry, size: int, deep: int) -> Form:
    fields = list(_fields(entry, deep))
    align = _align(entry, fields)
    scalars = {form.scalars for _, form in fields}
    whole = len(scalars) == 1 and all(scalar.size == size and scalar.sort != "real" for scalar in next(iter(scalars)))
    if whole and size <= _WORD and all(len(parts) == 1 for parts in scalars):
        return Form(size, align, next(iter(scalars)))
    # repr(C) puts into memory what is scalars elsewhere.
    certain = len(scalars) != 1 or (not any(scalars) and all(form.certain for _, form in fields))
    return Form(size, align, certain=certain)


def _fields(entry: Entry, deep: int) -> Iterator[tuple[int, Form]]:
    """The members that have a size, and where they begin."""
    for member in entry.children():
        if member.tag == dw.MEMBER:
            form = form_of(member.follow(dw.TYPE), deep)
            if form.size:
                yield types.offset_of(member) or 0, form


def _align(entry: Entry, fields: _Fields) -> int:
    return entry.number(dw.ALIGNMENT) or max((form.align for _, form in fields), default=1)


def _of_fields(fields: _Fields, size: int, align: int) -> Form:
    """A struct is scalars where it has their size and alignment: it is one member, or two that are one scalar each."""
    memory = Form(size, align)
    if len(fields) > 2 or not fields or any(form.certain and not form.scalars for _, form in fields):
        return memory
    if not all(form.certain for _, form in fields):
        return memory._replace(certain=False)
    if len(fields) == 1:
        ((offset, form),) = fields
        if (offset, size, align) != (0, form.size, form.align):
            return memory
        # With repr(C) a struct of one scalar is memory. Of an integer that fits a word nobody can tell.
        is_word = form.scalars[0].sort != "real" and form.size <= _WORD
        return form if len(form.scalars) > 1 or is_word else memory._replace(certain=False)
    (_, one), (second, other) = sorted(fields, key=lambda field: field[0])
    if len(one.scalars) > 1 or len(other.scalars) > 1:
        return memory
    most = max(one.align, other.align)
    start = -(-one.size // other.align) * other.align
    if (second, size, align) != (start, -(-(start + other.size) // most) * most, most):
        return memory
    return Form(size, align, (one.scalars[0], other.scalars[0]._replace(offset=start)))
