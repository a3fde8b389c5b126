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


def parameters(both: Both, found: Findings) -> None:
    """Compares the functions that have code, one by one."""
    debug = debug_information(both, found)
    if debug is None:
        return
    entries, dwarf = debug
    lists = found.theirs(lambda: LocationParser(dwarf.location_lists()))
    units = iter(dwarf.iter_CUs())
    while (unit := found.theirs(next, units, None)) is not None:
        top = found.theirs(unit.get_top_DIE)
        if top is not None and {"DW_AT_GNU_dwo_name", "DW_AT_dwo_name"} & top.attributes.keys():
            found.known("split off")
            continue
        dies = iter(unit.iter_DIEs())
        while (die := found.theirs(next, dies, None)) is not None:
            if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes:
                _function(found, entries, lists, top, die)


def _function(found: Findings, entries: Entries, lists: Any, top: Any, die: Any) -> None:
    start = die.attributes["DW_AT_low_pc"].value
    if not start:
        found.known("one place")  # what the linker dropped
        return
    theirs = found.theirs(_theirs, lists, top, die, start)
    if theirs is None:
        return
    what = f"the function at {start:#x}"
    function = found.ours(function_at, entries, start)
    if function is None or isinstance(function, str):
        found.same(what, function, theirs)
        return
    if function.id != die.offset:
        found.known("one place")
        return
    found.same(what, found.ours(_ours, function, start), theirs)


def _ours(function: Entry, start: int) -> list[_Parameter]:
    return [
        (types.spelling(attribute(declared, dw.TYPE)), name_of(declared), location_at(own, start))
        for declared, own in parameters_of(function)
    ]


def _theirs(lists: Any, top: Any, die: Any, start: int) -> list[_Parameter]:
    own = [each for each in die.iter_children() if each.tag == "DW_TAG_formal_parameter"]
    pairs = [(each, each) for each in own]
    if "DW_AT_abstract_origin" in die.attributes:
        abstract = die.get_DIE_from_attribute("DW_AT_abstract_origin")
        copies = {}
        for each in own:
            if "DW_AT_abstract_origin" in each.attributes:
                copies[each.get_DIE_from_attribute("DW_AT_abstract_origin").offset] = each
        declared = [each for each in abstract.iter_children() if each.tag == "DW_TAG_formal_parameter"]
        pairs = [(each, copies.get(each.offset, each)) for each in declared] or pairs
    return [
        (_spelling(_followed(each, "DW_AT_type")), _text(each) or _text(_origins(each)[-1]),
         _location(lists, top, copy, start))
        for each, copy in pairs
    ]


def _origins(die: Any) -> list[Any]:
    """The entry, the one that it is a copy of, and so on."""
    made = [die]
    for _ in range(_MOST_CHAIN - 1):
        name = next((each for each in _COPY_OF if each in made[-1].attributes), None)
        if name is None:
            break
        made.append(made[-1].get_DIE_from_attribute(name))
    return made


def _followed(die: Any, name: str) -> Any:
    return next((each.get_DIE_from_attribute(name) for each in _origins(die) if name in each.attributes), None)


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
    for each in said:
        if isinstance(each, BaseAddressEntry):
            base = each.base_address
        elif isinstance(each, LocationEntry):
            within = 0 if each.is_absolute else base
            if each.begin_offset == -1 or each.begin_offset + within <= start < each.end_offset + within:
                return bytes(each.loc_expr)
    return b""
