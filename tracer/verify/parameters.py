"""The parameters of functions, as both read them: name, type, and the expression that says where each is at the
function's first instruction.
"""

from __future__ import annotations

from typing import Any

from elftools.dwarf.locationlists import BaseAddressEntry, LocationEntry, LocationExpr, LocationParser

from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.functions import attribute, function_at, name_of, parameters_of
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import location_at
from tracer.resolve.dwarf.units.unit import Entry
from tracer.verify.files import Both, debug_information
from tracer.verify.findings import Findings

_WORDS = {"DW_TAG_structure_type": "struct ", "DW_TAG_class_type": "struct ", "DW_TAG_union_type": "union ",
          "DW_TAG_enumeration_type": "enum "}  # fmt: skip
_AROUND = {"DW_TAG_pointer_type": ("", "*"), "DW_TAG_reference_type": ("", "&"),
           "DW_TAG_rvalue_reference_type": ("", "&&"), "DW_TAG_const_type": ("const ", ""),
           "DW_TAG_volatile_type": ("volatile ", "")}  # fmt: skip
_COPY_OF = ("DW_AT_abstract_origin", "DW_AT_specification")
_DEEPEST = 24
_MOST_CHAIN = 8

_Parameter = tuple[str, str, bytes | None]


def parameters(both: Both, findings: Findings) -> None:
    """Compares the functions that have code, one by one."""
    debug = debug_information(both, findings)
    if debug is None:
        return
    entries, dwarf = debug
    lists = findings.theirs(lambda: LocationParser(dwarf.location_lists()))
    units = iter(dwarf.iter_CUs())
    while (unit := findings.theirs(next, units, None)) is not None:
        top = findings.theirs(unit.get_top_DIE)
        if top is not None and {"DW_AT_GNU_dwo_name", "DW_AT_dwo_name"} & top.attributes.keys():
            findings.count_reason("split off")
            continue
        dies = iter(unit.iter_DIEs())
        while (die := findings.theirs(next, dies, None)) is not None:
            if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes:
                _function(findings, entries, lists, top, die)


def _function(findings: Findings, entries: Entries, lists: Any, top: Any, die: Any) -> None:
    start = die.attributes["DW_AT_low_pc"].value
    if not start:
        findings.count_reason("one place")  # what the linker dropped
        return
    theirs = findings.theirs(_theirs, lists, top, die, start)
    if theirs is None:
        return
    what = f"the function at {start:#x}"
    function = findings.ours(function_at, entries, start)
    if function is None or isinstance(function, str):
        findings.same(what, function, theirs)
        return
    if function.id != die.offset:
        findings.count_reason("one place")
        return
    findings.same(what, findings.ours(_ours, function, start), theirs)


def _ours(function: Entry, start: int) -> list[_Parameter]:
    return [
        (types.spelling(attribute(declared, dw.TYPE)), name_of(declared), location_at(place, start))
        for declared, place in parameters_of(function)
    ]


def _theirs(lists: Any, top: Any, die: Any, start: int) -> list[_Parameter]:
    parameters_of_copy = [child for child in die.iter_children() if child.tag == "DW_TAG_formal_parameter"]
    pairs = [(parameter, parameter) for parameter in parameters_of_copy]
    if "DW_AT_abstract_origin" in die.attributes:
        abstract = die.get_DIE_from_attribute("DW_AT_abstract_origin")
        copies = {}
        for parameter in parameters_of_copy:
            if "DW_AT_abstract_origin" in parameter.attributes:
                copies[parameter.get_DIE_from_attribute("DW_AT_abstract_origin").offset] = parameter
        declared = [child for child in abstract.iter_children() if child.tag == "DW_TAG_formal_parameter"]
        pairs = [(parameter, copies.get(parameter.offset, parameter)) for parameter in declared] or pairs
    return [
        (_spelling(_followed(parameter, "DW_AT_type")), _text(parameter) or _text(_origins(parameter)[-1]),
         _location(lists, top, copy, start))
        for parameter, copy in pairs
    ]


def _origins(die: Any) -> list[Any]:
    """The entry, the one that it is a copy of, and so on."""
    origins = [die]
    for _ in range(_MOST_CHAIN - 1):
        name = next((attribute for attribute in _COPY_OF if attribute in origins[-1].attributes), None)
        if name is None:
            break
        origins.append(origins[-1].get_DIE_from_attribute(name))
    return origins


def _followed(die: Any, name: str) -> Any:
    return next((origin.get_DIE_from_attribute(name) for origin in _origins(die) if name in origin.attributes), None)


def _text(die: Any) -> str:
    value = die.attributes.get("DW_AT_name")
    return "" if value is None else value.value.decode("utf-8", "surrogateescape")


def _spelling(die: Any, deep: int = 0) -> str:
    """A type as `types.spelling` writes it, by the entries of pyelftools."""
    if die is None or deep > _DEEPEST:
        return "void"
    if die.tag in _WORDS and "DW_AT_signature" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_signature")
    if die.tag in ("DW_TAG_base_type", "DW_TAG_typedef"):
        return _text(die)
    if die.tag in _AROUND:
        before, behind = _AROUND[die.tag]
        inner = die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None
        return f"{before}{_spelling(inner, deep + 1)}{behind}"
    if die.tag in _WORDS:
        return _WORDS[die.tag] + (_text(die) or "<anonymous>")
    return "<unknown type>"


def _location(lists: Any, top: Any, die: Any, start: int) -> bytes | None:
    """The expression for an address; b"" where a list has none for it, None where nothing is said."""
    value = die.attributes.get("DW_AT_location")
    if value is None:
        return None
    version = die.cu["version"]
    if not LocationParser.attribute_has_location(value, version):
        return bytes(value.value) if isinstance(value.value, list) else b""
    said = lists.parse_from_attribute(value, version, die)
    if isinstance(said, LocationExpr):
        return bytes(said.loc_expr)
    base = top.attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in top.attributes else 0
    for entry in said:
        if isinstance(entry, BaseAddressEntry):
            base = entry.base_address
        elif isinstance(entry, LocationEntry):
            within = 0 if entry.is_absolute else base
            if entry.begin_offset == -1 or entry.begin_offset + within <= start < entry.end_offset + within:
                return bytes(entry.loc_expr)
    return b""
