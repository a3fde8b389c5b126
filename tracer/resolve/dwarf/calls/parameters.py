"""The parameters of a function at a place: their names, their types, and where their values are.

Debug information tells names and types; `passing.py` has the rules of where a caller puts them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.kinds.arch import ARCHES, EM_386
from tracer.kinds.site import FileSite
from tracer.lang.types import IntType, PointerType, Type, memory_size
from tracer.lang.types.outside import INSIDE, Parameter
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.arguments import EMPTY, IN_FLOATS, ParameterPlace
from tracer.resolve.dwarf.calls.i386 import Stated
from tracer.resolve.dwarf.calls.languages import passing_of
from tracer.resolve.dwarf.calls.stated_locations import convention_number, is_llvms, is_moved, register_of, stated
from tracer.resolve.dwarf.functions import attribute, function_at, has, name_of, parameters_of
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import start_of
from tracer.resolve.dwarf.units.unit import Entry

_CHANGED = re.compile(r"\.(isra|constprop|part|llvm|specialized)\b")
_OTHERWISE = "the function does not use the ABI's calling convention"
_OF_THE_ABI = (dw.NORMAL, dw.NO_CALL, dw.LLVM_SYSTEM_V, dw.LLVM_PRESERVE_MOST, dw.LLVM_PRESERVE_ALL)
_GO_CHECK = 256
"""Bytes of a Go function that check its stack. While they run the arguments stay where they are."""


def parameters_at(entries: Entries, site: FileSite, file: str) -> tuple[Parameter, ...] | str | None:
    """The parameters of the function at a site, or why they are not known there; None where no debug information tells
    of the function. `file` is the name by which types remember where they stand.
    """
    function = function_at(entries, site.address)
    if function is None:
        return None
    language = function.unit.top.number(dw.LANGUAGE, 0) or 0
    start = start_of(function) or 0
    late = site.address - start
    if late and not (language == dw.GO and late < _GO_CHECK and _is_of_function(site)):
        return INSIDE
    return tuple(_parameters(entries, function, language, start, site.probe, file))


def _is_of_function(site: FileSite) -> bool:
    """Whether a probe names a whole function, not an instruction or a line."""
    last = site.probe.rpartition(":")[2]
    return "+" not in last and not last.isdecimal()


def _parameters(
    entries: Entries, function: Entry, language: int, start: int, probe: str, file: str
) -> list[Parameter]:
    passing = passing_of(function, language, ARCHES[entries.elf.machine], file)
    result = types.plain(attribute(function, dw.TYPE))
    if result is not None:
        passing.returns(result)
    if convention_number(function) not in _OF_THE_ABI:
        passing.convention.lost = _OTHERWISE
    pairs = [pair for pair in parameters_of(function) if passing.takes(pair[1])]
    direct = [concrete for declared, concrete in pairs if passing.is_direct(declared)]
    changes = _Changes(entries, function, start, probe, language != dw.GO, direct)
    parameters: list[Parameter] = []
    lost = ""
    by_statement = entries.elf.machine == EM_386 and language != dw.GO
    for declared, concrete in pairs:
        kinds = attribute(declared, dw.TYPE)
        name, text = name_of(declared) or f"arg{len(parameters)}", types.spelling(kinds)
        type: Type = IntType(64, False)
        unknown = ""
        try:
            type = types.type_of(kinds, file)
        except types.UnknownType as error:
            unknown = error.message
        try:
            place = passing.place(kinds, concrete, type, unknown)
        except types.UnknownType as error:
            lost = lost or f"{error.message}, and so has no known place"
            parameters.append(Parameter(name, text, reason=lost))
            continue
        if unknown:
            parameters.append(Parameter(name, text, reason=lost or unknown))
            continue
        if not by_statement:
            place = changes.place(concrete, place, type, lost)
        target = _referred(kinds, type)
        parameters.append(Parameter(name, text, target or type, place.pieces, place.stack, place.indirect,
                               target is not None, place.reason))  # fmt: skip
    return changes.placed(parameters, [concrete for _, concrete in pairs]) if by_statement else parameters


def _referred(kinds: Entry | None, type: Type) -> Type | None:
    """The type that a reference refers to; None for others, and where it is not known."""
    below = types.plain(kinds)
    if below is None or below.tag not in dw.REFERENCES:
        return None
    assert isinstance(type, PointerType)
    return type.target


class _Changes:
    """Whether the compiler has changed how a function is called, and where its parameters are then. `changed`: its name
    says so. `local`: it is called from its own file alone. `moved`: LLVM may have changed it without a word. `llvms`:
    LLVM leaves out places of parameters that nobody uses.
    """

    def __init__(
        self, entries: Entries, function: Entry, start: int, probe: str, may_be_local: bool, direct: Sequence[Entry]
    ) -> None:
        self._start, self._arch = start, ARCHES[entries.elf.machine]
        symbols = entries.symbols.starting(start) if entries.symbols is not None else []
        local = may_be_local and not has(function, dw.EXTERNAL)
        made_local = bool(symbols) and all(alone for _, alone in symbols)
        self._changed = _CHANGED.search(" ".join(name for name, _ in symbols) or probe) is not None
        self._moved = is_moved(function, local or made_local, direct)
        self._local = local or self._moved
        self._llvms = is_llvms(function) and function.unit.version > 3  # before, not all places can be said
        self._function = function

    def placed(self, by_rule: Sequence[Parameter], concretes: Sequence[Entry]) -> list[Parameter]:
        """The parameters of an i386 function, that have their places by the convention."""
        return Stated(self._function, self._start, concretes, self._changed or self._local).placed(by_rule)

    def place(self, concrete: Entry, place: ParameterPlace, type: Type, lost: str) -> ParameterPlace:
        """The place of a parameter that has one by the convention, unless that is `lost`."""
        register = register_of(concrete, self._start, self._arch) if self._changed or self._local else None
        reason, pieces = lost or place.reason, place.pieces
        if self._moved and dw.LOCATION in concrete and reason != EMPTY and IN_FLOATS not in reason:
            place = stated(concrete, self._start, self._arch, place, memory_size(type))
            reason, pieces = place.reason, place.pieces
        elif register is not None and len(pieces) <= 1 and not self._moved:
            if pieces or place.stack is not None:
                size = pieces[0][1] if pieces else 8
                place, pieces = place._replace(stack=None), ((0, size, register, 0),)
        elif self._changed or ((self._local or (self._llvms and not reason)) and dw.LOCATION not in concrete):
            value = concrete.signed(dw.CONST_VALUE)
            reason = "the compiler has optimised it out" + ("" if value is None else f": it is always {value}")
        if reason and (reason != place.reason or register is not None or self._changed or self._moved):
            pieces = ()
        return ParameterPlace(pieces, None if reason else place.stack, place.indirect, reason)
