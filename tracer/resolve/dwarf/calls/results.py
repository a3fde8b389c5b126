"""Functions that return no value in a general register, by what debug information says of them."""

from __future__ import annotations

from collections.abc import Callable

from tracer.dataclass import replace
from tracer.kinds.arch import EM_386, EM_X86_64
from tracer.lang.types import Type
from tracer.lang.types.outside import Parameter
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.calls.passing import passed_by_reference
from tracer.resolve.dwarf.calls.shapes import shape_of
from tracer.resolve.dwarf.calls.stated_locations import describes_calls, is_llvms
from tracer.resolve.dwarf.functions import attribute, function_at, has, origin
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import start_of
from tracer.resolve.dwarf.units.unit import Entry

Unused = Callable[[int], bool]
"""Whether every caller of the function that begins at an address leaves its result unread."""

_IN_REGISTER = frozenset((dw.BASE_TYPE, dw.POINTER, dw.ENUMERATION)) | dw.REFERENCES

NO_VALUE = "it returns no value"
ON_STACK = "it is on the stack, as all results of Go in 32-bit programs"
IN_FLOATS = "it is in a floating-point register, which no probe can read"
NO_NUMBER = "it is neither a number nor an address"
NOT_SAID = "no debug information says what it is"
UNUSED = "no caller uses its result, so the compiler has left it out"


def no_result(entries: Entries, address: int, unused: Unused) -> str:
    """Why the function whose code holds an address returns nothing; "" where it returns something or nobody knows."""
    function = function_at(entries, address)
    machine = entries.elf.machine
    if machine == EM_386 and function is not None and function.unit.top.number(dw.LANGUAGE) == dw.GO:
        return ON_STACK
    if function is None or function.unit.top.number(dw.LANGUAGE, 0) not in dw.SAY_RESULTS:
        return ""
    if _is_void(function):
        return NO_VALUE
    if _is_in_floats(function, machine):
        return IN_FLOATS
    start = start_of(function)
    return UNUSED if start is not None and _may_be_dropped(entries, function, start) and unused(start) else ""


def result_type(entries: Entries, address: int, key: str) -> Type | str:
    """The type of what the function whose code holds an address returns in the register of `retval`; else why nothing
    is known to be there. `key`: see `types.type_of`.
    """
    function = function_at(entries, address)
    if function is None or function.unit.top.number(dw.LANGUAGE, 0) not in dw.SAY_RESULTS:
        return NOT_SAID
    if _is_void(function):
        return NO_VALUE
    stated = attribute(function, dw.TYPE)
    kind = types.plain(stated)
    if kind is None or kind.tag not in _IN_REGISTER or kind.number(dw.ENCODING) == dw.COMPLEX_FLOAT:
        return NO_NUMBER
    if _is_float(kind):
        return IN_FLOATS
    try:
        return types.type_of(stated, key)
    except types.UnknownType:
        return NO_NUMBER


def struct_result(entries: Entries, address: int, key: str) -> Parameter | None:
    """The struct that the C or C++ function whose code holds an address returns, and where it is then: `pieces` of rax
    (0) and rdx (1), or `indirect` at the address in rax. None where it is no struct, or nothing tells. By 3.2.3 of the
    ABI's document for x86-64.
    """
    function = function_at(entries, address)
    language = dw.RUST if function is None else function.unit.top.number(dw.LANGUAGE, 0)
    if function is None or entries.elf.machine != EM_X86_64 or language == dw.RUST or language not in dw.SAY_RESULTS:
        return None
    stated = attribute(function, dw.TYPE)
    kind = types.plain(stated)
    if kind is None or kind.tag not in (dw.STRUCTURE, dw.CLASS, dw.UNION):
        return None
    try:
        result = Parameter("retval", types.spelling(stated), types.type_of(stated, key))
        if passed_by_reference(kind):
            return replace(result, pieces=((0, 8, 0, 0),), indirect=True)
        shape = shape_of(kind)
    except types.UnknownType:
        return None
    if shape.in_memory:
        return replace(result, pieces=((0, 8, 0, 0),), indirect=True)
    pieces: list[tuple[int, int, int, int]] = []
    register = 0
    for word, held in enumerate(shape.classes):
        if held == "integer":
            pieces += _powers_of_two(8 * word, min(8, shape.size - 8 * word), register)
            register += 1
    elsewhere = any(held not in ("integer", "") for held in shape.classes)
    return replace(result, pieces=tuple(pieces), reason=IN_FLOATS if elsewhere else "") if pieces else None


def _powers_of_two(offset: int, size: int, register: int) -> list[tuple[int, int, int, int]]:
    """So many bytes of a register, as pieces whose sizes are those of integers."""
    pieces, done = [], 0
    while done < size:
        part = next(power for power in (8, 4, 2, 1) if power <= size - done)
        pieces.append((offset + done, part, register, 8 * done))
        done += part
    return pieces


def is_in_two(entries: Entries, address: int) -> bool:
    """Whether the i386 function whose code holds an address returns an integer in two registers, eax and edx."""
    function = function_at(entries, address)
    kind = None if function is None else types.plain(attribute(function, dw.TYPE))
    return kind is not None and kind.tag in _IN_REGISTER and kind.number(dw.BYTE_SIZE, 0) == 8 and not _is_float(kind)


def _is_in_floats(function: Entry, machine: int) -> bool:
    """Whether no part of the result is in a general register: a number with a fraction, or a struct of such numbers
    where the ABI is that of C and C++ on x86-64 (3.2.3 of its document). A class that must not be copied as bytes is
    in memory, at the address that is returned.
    """
    result = types.plain(attribute(function, dw.TYPE))
    if result is None:
        return False
    if machine != EM_X86_64 or function.unit.top.number(dw.LANGUAGE) == dw.RUST:
        return result.tag == dw.BASE_TYPE and _is_float(result)
    if passed_by_reference(result):
        return False
    try:
        shape = shape_of(result)
    except types.UnknownType:
        return False
    return not shape.in_memory and bool(shape.classes) and "integer" not in shape.classes


def _is_float(kind: Entry) -> bool:
    return kind.number(dw.ENCODING) == dw.FLOAT


def _is_void(function: Entry) -> bool:
    """Whether it has no type, in a unit that tells types: with -g1 there are functions and no types."""
    last = origin(function)
    if dw.ABSTRACT_ORIGIN in last or dw.SPECIFICATION in last:
        return False  # what it is a copy of is in a file that is not here
    if not has(function, dw.TYPE):
        attributes = (entry for _, _, kind in function.unit.walk() for entry in kind.attributes)
        return any(name == dw.TYPE for name, _, _ in attributes)
    kind = next((type_entry for entry in (function, last) if (type_entry := entry.follow(dw.TYPE)) is not None), None)
    while kind is not None and (kind.tag == dw.TYPEDEF or kind.tag in dw.QUALIFIERS):
        if dw.TYPE not in kind:
            return True
        kind = kind.follow(dw.TYPE)
    return False


def _may_be_dropped(entries: Entries, function: Entry, start: int) -> bool:
    """Whether it returns an integer or an address, and a compiler that knew all its callers has optimised it. gcc gives
    such a function another name.
    """
    kind = types.plain(attribute(function, dw.TYPE))
    if kind is None or kind.tag not in _IN_REGISTER or kind.number(dw.ENCODING) in (dw.FLOAT, dw.COMPLEX_FLOAT):
        return False
    names = entries.symbols.starting(start) if entries.symbols is not None else []
    if not is_llvms(function):
        return any(".isra." in name for name, _ in names)
    local = not has(function, dw.EXTERNAL) or (bool(names) and all(alone for _, alone in names))
    return local and describes_calls(function)
