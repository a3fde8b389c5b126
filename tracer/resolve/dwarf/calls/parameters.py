"""The parameters of a function at a place: their names, their types, and where their values are.

Debug information tells names and types; `arguments.py` has the rules of where a caller puts them.
"""

from __future__ import annotations

import re
from contextlib import suppress

from tracer.lang.types import IntType, PointerType, Type
from tracer.lang.types.outside import Parameter
from tracer.resolve.arch import ARCHES, X86_64
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.arguments import Convention, GoConvention, RustConvention
from tracer.resolve.dwarf.calls.shapes import Shape, holds_nullptr, shape_of
from tracer.resolve.dwarf.functions import attribute, function_at, has, name_of, parameters_of
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import location_at, start_of
from tracer.resolve.dwarf.units.unit import Entry
from tracer.resolve.model import Site

_CHANGED = re.compile(r"\.(isra|constprop|part|llvm|specialized)\b")
_CLANG = "clang places it, and what follows, otherwise than the ABI says"
_DEEPEST = 16
_GO_CHECK = 256
"""Bytes of a Go function that check its stack; its arguments stay where they are there."""
_REGISTERS = {
    62: ("ax", "dx", "cx", "bx", "si", "di", "bp", "sp", *(f"r{number}" for number in range(8, 16))),
    183: tuple(f"x{number}" for number in range(31)),
}
"""By the number of the ELF header's machine: the names of DWARF's registers from 0 on."""


def parameters_at(entries: Entries, site: Site, file: str) -> tuple[Parameter, ...] | str | None:
    """Those of the function at a site, or why they are not known there; None where nothing tells of a function. `file`
    is the name by which types remember where they stand.
    """
    function = function_at(entries, site.address)
    if function is None:
        return None
    language = function.unit.top.number(dw.LANGUAGE, 0) or 0
    start = start_of(function) or 0
    late = site.address - start
    if late and not (language == dw.GO and late < _GO_CHECK and "+" not in site.probe.rpartition(":")[2]):
        return "they are known where a function begins, and this is inside one"
    return tuple(_each(entries, function, language, start, site.probe, file))


def _each(
    entries: Entries, function: Entry, language: int, start: int, probe: str, file: str
) -> list[Parameter]:
    arch = ARCHES[entries.elf.machine]
    kind = {dw.GO: GoConvention, dw.RUST: RustConvention}.get(language, Convention)
    convention = kind(arch)
    result = attribute(function, dw.TYPE)
    shaped = kind is Convention and arch is X86_64
    clang = shaped and "clang" in function.unit.top.text(dw.PRODUCER)
    with suppress(types.UnknownType):
        if result is not None:
            shape = shape_of(result) if shaped else types.type_of(result, file)
            convention.hidden(shape, _by_reference(result))
    changed = _CHANGED.search(probe) is not None
    local = not has(function, dw.EXTERNAL) and language != dw.GO
    found: list[Parameter] = []
    lost = ""
    for declared, own in parameters_of(function):
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
            if unknown and not shaped:
                raise types.UnknownType(unknown)
            shape = shape_of(kinds) if shaped else type
            if clang and _is_clangs_own(shape, kinds, len(arch.args) - convention.integers):
                convention.lost = convention.lost or _CLANG
            place = convention.place(shape, _by_reference(kinds))
        except types.UnknownType as error:
            lost = lost or f"{error.message}, and so has no known place"
            found.append(Parameter(name, text, reason=lost))
            continue
        if unknown:
            found.append(Parameter(name, text, reason=lost or unknown))
            continue
        register = _register(own, start, entries.elf.machine) if changed or local else None
        reason = lost or place.reason
        pieces = place.pieces
        if register in arch.args and language != dw.GO and len(pieces) <= 1:
            number = arch.args.index(register)
            if pieces or place.stack is not None:
                size = pieces[0][1] if pieces else 8
                place, pieces = place._replace(stack=None), ((0, size, number, 0),)
        elif changed or (local and dw.LOCATION not in own and language != dw.GO):
            value = own.signed(dw.CONST_VALUE)
            reason = "the compiler has optimised it out" + ("" if value is None else f": it is always {value}")
        inner: Type | None = type
        if reference:
            assert isinstance(type, PointerType)
            inner = type.target
            reference = inner is not None
            inner = inner or type
        found.append(Parameter(name, text, inner, () if reason else pieces, None if reason else place.stack,
                               place.indirect, reference, reason))  # fmt: skip
    return found


def _is_clangs_own(shape: Shape | Type | None, kinds: Entry | None, left: int) -> bool:
    """Whether clang passes a value in a way of its own, with so many registers left. Clang 14 aligns an __int128 on the
    stack to eight bytes and leaves no register behind it, and puts a struct that holds a nullptr_t in memory.
    """
    assert isinstance(shape, Shape)
    return (left < 2 and not shape.made and shape.size == 16 and "integer" in shape.classes) or holds_nullptr(kinds)


def _register(entry: Entry, start: int, machine: int) -> str | None:
    """The register that holds a parameter at the function's start, where debug information says so."""
    expression = location_at(entry, start)
    if not expression or len(expression) != 1 or not 0x50 <= expression[0] <= 0x6F:  # DW_OP_reg0 to reg31
        return None
    registers, number = _REGISTERS[machine], expression[0] - 0x50
    return registers[number] if number < len(registers) else None


def _by_reference(entry: Entry | None, deep: int = 0) -> bool:
    """Whether a class of C++ must not be copied as bytes, so that its address is passed: some compilers say so; else it
    has virtual functions, a destructor or a copy constructor of its own, or holds such a class.
    """
    found = types.plain(entry)
    if found is None or found.tag not in dw.RECORDS or deep > _DEEPEST:
        return False
    found = types.defined(found) or found
    stated = found.number(dw.CALLING_CONVENTION)
    if stated is not None:
        return stated == dw.BY_REFERENCE
    name = found.text().partition("<")[0]
    for each in found.children():
        if each.tag in (dw.MEMBER, dw.INHERITANCE):
            if each.text().startswith("_vptr") or dw.VIRTUALITY in each:
                return True
            if dw.EXTERNAL not in each and _by_reference(each.follow(dw.TYPE), deep + 1):
                return True
        elif each.tag == dw.SUBPROGRAM and dw.DEFAULTED not in each and _is_special(each, name, found):
            return True
    return False


def _is_special(function: Entry, name: str, record: Entry) -> bool:
    own = function.text()
    return own == f"~{name}" or (own == name and _copies(function, record))


def _copies(constructor: Entry, record: Entry) -> bool:
    """Whether a constructor takes a reference to its own class alone."""
    taken = [each for each in constructor.children() if each.tag == dw.PARAMETER and dw.ARTIFICIAL not in each]
    if len(taken) != 1:
        return False
    kind = types.plain(taken[0].follow(dw.TYPE))
    if kind is None or kind.tag not in dw.REFERENCES:
        return False
    below = types.plain(kind.follow(dw.TYPE))
    return below is not None and below.id == record.id
