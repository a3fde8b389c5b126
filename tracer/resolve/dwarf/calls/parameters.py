"""The parameters of a function at a place: their names, their types, and where their values are.

Debug information tells names and types; `arguments.py` has the rules of where a caller puts them.
"""

from __future__ import annotations

import re

from tracer.lang.types import IntType, PointerType, Type, memory_size
from tracer.lang.types.outside import Parameter
from tracer.probes.arch import ARCHES, X86_64, Arch
from tracer.probes.site import Site
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.arguments import EMPTY, IN_FLOATS, Convention, GoConvention, Place
from tracer.resolve.dwarf.calls.rust import RustConvention
from tracer.resolve.dwarf.calls.rustc_layout import Form, form_of, is_direct
from tracer.resolve.dwarf.calls.shapes import Shape, holds_nullptr, shape_of
from tracer.resolve.dwarf.calls.stated_locations import (
    convention_number,
    is_in_frame,
    is_llvms,
    is_moved,
    register_of,
    stated,
)
from tracer.resolve.dwarf.functions import attribute, function_at, has, linked_name, name_of, parameters_of
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import start_of
from tracer.resolve.dwarf.units.unit import Entry

_CHANGED = re.compile(r"\.(isra|constprop|part|llvm|specialized)\b")
_RUSTC = re.compile(r"rustc version 1\.(\d+)\.")
_EITHER = 'Rust and extern "C" pass it in different ways, and nothing says which one the function uses'
_COPIED = "nothing says whether it may be copied as bytes: a constructor takes more than one argument"
_CLANG = "clang passes it, and the parameters after it, in other places than the ABI says"
_OTHERWISE = "the function does not use the ABI's calling convention"
_OF_THE_ABI = (dw.NORMAL, dw.NO_CALL, dw.LLVM_SYSTEM_V, dw.LLVM_PRESERVE_MOST, dw.LLVM_PRESERVE_ALL)
_DEEPEST = 16
_ADDRESS = IntType(64, False)
_IN_CLASS = 1
"""DW_DEFAULTED_in_class. A function that is defaulted outside of its class is a function like any other."""
_GO_CHECK = 256
"""Bytes of a Go function that check its stack. While they run the arguments stay where they are."""


def parameters_at(entries: Entries, site: Site, file: str) -> tuple[Parameter, ...] | str | None:
    """The parameters of the function at a site, or why they are not known there; None where no debug information tells
    of the function. `file` is the name by which types remember where they stand.
    """
    function = function_at(entries, site.address)
    if function is None:
        return None
    language = function.unit.top.number(dw.LANGUAGE, 0) or 0
    start = start_of(function) or 0
    late = site.address - start
    if late and not (language == dw.GO and late < _GO_CHECK and "+" not in site.probe.rpartition(":")[2]):
        return "they are known only at a function's first instruction, and this is inside a function"
    return tuple(_each(entries, function, language, start, site.probe, file))


def _each(
    entries: Entries, function: Entry, language: int, start: int, probe: str, file: str
) -> list[Parameter]:
    arch = ARCHES[entries.elf.machine]
    rust = language == dw.RUST
    shaped = arch is X86_64 and language not in (dw.GO, dw.RUST)
    producer = function.unit.top.text(dw.PRODUCER)
    convention = _convention(arch, language, producer)
    # A name that other languages can use may be that of a function with their convention.
    foreign = Convention(arch) if rust and linked_name(function) == name_of(function) else None
    clang = shaped and "clang" in producer

    def described(kinds: Entry | None) -> Type | Shape | Form:
        return form_of(kinds) if rust else shape_of(kinds) if shaped else types.type_of(kinds, file)

    result = types.plain(attribute(function, dw.TYPE))
    try:
        if result is not None and (rust or shaped):
            addressed = shaped and _by_reference(result)
            convention.hidden(_ADDRESS if addressed else described(result), addressed)
        if result is not None and foreign is not None:
            foreign.hidden(types.type_of(result, file), False)
    except types.UnknownType as error:
        (foreign or convention).lost = f"it depends on what is returned, and {error.message}"
    symbols = entries.symbols.starting(start) if entries.symbols is not None else []
    if convention_number(function) not in _OF_THE_ABI:
        convention.lost = _OTHERWISE
    changed = _CHANGED.search(" ".join(name for name, _ in symbols) or probe) is not None
    local = not has(function, dw.EXTERNAL) and language != dw.GO
    parameters = parameters_of(function)
    direct = [own for each, own in parameters if not rust or is_direct(attribute(each, dw.TYPE))]
    made_local = bool(symbols) and all(alone for _, alone in symbols)
    moved = is_moved(function, local or made_local, direct)
    local = local or moved
    llvms = is_llvms(function) and function.unit.version > 3  # before, not all places can be said
    found: list[Parameter] = []
    lost = ""
    for declared, own in parameters:
        if language == dw.GO and own.number(dw.VARIABLE_PARAMETER):
            continue  # a result
        kinds = attribute(declared, dw.TYPE)
        name, text = name_of(declared), types.spelling(kinds)
        if not name:
            name = f"arg{len(found)}"
        below = types.plain(kinds)
        reference = below is not None and below.tag in dw.REFERENCES
        try:
            unknown, type = "", types.type_of(kinds, file)
        except types.UnknownType as error:
            unknown, type = error.message, IntType(64, False)
        try:
            if unknown and not shaped and not rust:
                raise types.UnknownType(unknown)
            addressed = shaped and _by_reference(kinds)
            shape = _ADDRESS if addressed else described(kinds)
            if clang and not addressed and _is_clangs_own(shape, kinds, len(arch.args) - convention.integers):
                convention.lost = convention.lost or _CLANG
            place = convention.place(shape, addressed)
            if rust and place.indirect and is_in_frame(own):
                convention.lost, place = _EITHER, Place(reason=_EITHER)
            if foreign is not None:
                foreign.lost = foreign.lost or unknown
                place = place if place == foreign.place(type) or place.reason else Place(reason=_EITHER)
        except types.UnknownType as error:
            lost = lost or f"{error.message}, and so has no known place"
            found.append(Parameter(name, text, reason=lost))
            continue
        if unknown:
            found.append(Parameter(name, text, reason=lost or unknown))
            continue
        register = register_of(own, start, arch) if changed or local else None
        reason = lost or place.reason
        pieces = place.pieces
        if moved and dw.LOCATION in own and reason != EMPTY and IN_FLOATS not in reason:
            place = stated(own, start, arch, place, memory_size(type))
            reason, pieces = place.reason, place.pieces
        elif register is not None and len(pieces) <= 1 and not moved:
            if pieces or place.stack is not None:
                size = pieces[0][1] if pieces else 8
                place, pieces = place._replace(stack=None), ((0, size, register, 0),)
        elif changed or ((local or (llvms and not reason)) and dw.LOCATION not in own):
            value = own.signed(dw.CONST_VALUE)
            reason = "the compiler has optimised it out" + ("" if value is None else f": it is always {value}")
        inner: Type | None = type
        if reference:
            assert isinstance(type, PointerType)
            inner = type.target
            reference = inner is not None
            inner = inner or type
        if reason and (reason != place.reason or register is not None or changed or moved):
            pieces = ()
        found.append(Parameter(name, text, inner, pieces, None if reason else place.stack,
                               place.indirect, reference, reason))  # fmt: skip
    return found


def _convention(arch: Arch, language: int, producer: str) -> Convention:
    if language == dw.RUST:
        version = _RUSTC.search(producer)
        return RustConvention(arch, older=version is not None and int(version[1]) < 62)
    return (GoConvention if language == dw.GO else Convention)(arch)


def _is_clangs_own(shape: Shape | Type | Form, kinds: Entry | None, left: int) -> bool:
    """Whether clang passes a value in its own way while so many registers are left. Clang 14 aligns an __int128 on the
    stack to eight bytes and leaves no register behind it. It puts a struct that holds a nullptr_t in memory.
    """
    assert isinstance(shape, Shape)
    return (left < 2 and not shape.made and shape.size == 16 and "integer" in shape.classes) or holds_nullptr(kinds)


def _by_reference(entry: Entry | None, deep: int = 0) -> bool:
    """Whether a C++ class must not be copied as bytes, so that its address is passed. Some compilers say so. Else the
    class has virtual functions, a destructor or a copy constructor of its own, or holds such a class.
    """
    found = types.plain(entry)
    if found is None or found.tag not in dw.RECORDS or deep > _DEEPEST:
        return False
    found = types.defined(found) or found
    stated = found.number(dw.CALLING_CONVENTION)
    if stated is not None:
        return stated == dw.BY_REFERENCE
    name = found.text().partition("<")[0]
    copies: set[bool] = set()
    unsure = False
    for each in found.children():
        if each.tag in (dw.MEMBER, dw.INHERITANCE):
            if each.text().startswith("_vptr") or dw.VIRTUALITY in each:
                return True
            if dw.EXTERNAL not in each and _by_reference(each.follow(dw.TYPE), deep + 1):
                return True
        elif each.tag == dw.SUBPROGRAM and each.text() in (name, f"~{name}"):
            is_copy, more = (False, False) if each.text() != name else _copies(each, found)
            own = dw.DELETED not in each and each.number(dw.DEFAULTED) != _IN_CLASS
            if own and ((is_copy and not more) or each.text() != name):
                return True
            unsure = unsure or (is_copy and more)
            if is_copy and not more:
                copies.add(dw.DELETED in each)
    if unsure:
        raise types.UnknownType(_COPIED)
    return copies == {True}  # nothing is left to copy it with


def _copies(constructor: Entry, record: Entry) -> tuple[bool, bool]:
    """Whether a constructor's first parameter is a reference to its own class, and whether it has more parameters.
    Those may have default values, which nothing tells.
    """
    taken = [each for each in constructor.children() if each.tag == dw.PARAMETER and dw.ARTIFICIAL not in each]
    kind = types.plain(taken[0].follow(dw.TYPE)) if taken else None
    if kind is None or kind.tag not in dw.REFERENCES:
        return False, False
    below = types.plain(kind.follow(dw.TYPE))
    return below is not None and below.id == record.id, len(taken) > 1
