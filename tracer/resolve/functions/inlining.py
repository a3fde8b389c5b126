"""Where a function was inlined its code stands again, and no probe at its own first instruction sees it.

Told by the debug information of the units that know the function. Source: DWARF 5, 3.3.8 (inlinable and inlined
subroutines).
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

from tracer.dataclass import NamedTuple
from tracer.errors import printable
from tracer.resolve.dwarf.debug_info import asked
from tracer.resolve.dwarf.functions import function_at, name_of, origin
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.names import named
from tracer.resolve.dwarf.units.unit import Entry, Unit

_FUNCTIONS = frozenset((dw.SUBPROGRAM,))
_LINE = 0x3B  # DW_AT_decl_line
_NAMED = 3
COUNTED = "config = { inlined = true } counts them"
"""The remedy for calls that were inlined."""

_LONGEST_S = 1.0
"""A file of a hundred megabytes may know a thousand copies: nobody waits for the last."""


class Inlined(NamedTuple):
    """The number of places where a function was inlined, and the functions there, each once."""

    places: int
    callers: tuple[str, ...]


def at_places(inlined: Inlined) -> str:
    """The places in words: `at 3 places (in f and g)`."""
    number, callers = inlined
    text = "at 1 place" if number == 1 else f"at {number} places"
    names = [printable(caller) for caller in callers[:_NAMED]]
    if len(callers) > _NAMED:
        names[-1:] = [f"{len(callers) - _NAMED + 1} more"]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return f"{text} (in {listed})" if listed else text


def inlined_of(path: str, address: int) -> Inlined | None:
    """The places of the function that begins at an address; None if it was not inlined, or nothing says so.

    Raises `TracerError` where debug information is damaged.
    """

    def find(entries: Entries) -> tuple[int, tuple[str, ...]] | None:
        function = function_at(entries, address)
        if function is None:
            return None
        declared = origin(function)
        return _counted(entries, name_of(function), declared.number(_LINE))

    counted = asked(path, "inlined", address, find)
    return None if counted is None else Inlined(*counted)


def inlined_by_name(path: str, name: str) -> Inlined | None:
    """The places of a function without code of its own, by its name; None if nothing says that it was inlined."""
    counted = asked(path, "inlined", name, lambda entries: _counted(entries, name, None))
    return None if counted is None else Inlined(*counted)


def _counted(entries: Entries, name: str, line: int | None) -> tuple[int, tuple[str, ...]] | None:
    """The places of all functions of that name that are declared at that line, as `Inlined` has them: each unit has its
    own entry of a header's function.
    """
    if not name:
        return None
    until = time.monotonic() + _LONGEST_S
    number, callers = 0, dict[str, None]()
    for function in named(entries, name, _FUNCTIONS):
        if line is not None and function.number(_LINE) not in (line, None):
            continue
        for caller in _places(function):
            number += 1
            if caller:
                callers[caller] = None
            if time.monotonic() > until:
                return number, tuple(callers)
    return (number, tuple(callers)) if number else None


def _places(function: Entry) -> Iterator[str]:
    """The names of the functions in which an entry's code stands, once for each place."""
    unit = function.unit
    within = struct.pack("<I", function.offset - unit.offset)
    elsewhere = struct.pack("<I", function.offset)
    for other in unit.file.units:
        # Other units name it by its offset in the section: those of link-time optimisation.
        mark = within if other.offset == unit.offset else elsewhere
        if other.base == unit.base and other.data.find(mark, other.first, other.end) >= 0:
            yield from _in_unit(other, function, mark)


def _in_unit(unit: Unit, function: Entry, mark: bytes) -> Iterator[str]:
    around: list[tuple[int, int]] = []  # functions and the depth at which they stand
    before = -1
    place = unit.data.find(mark, unit.first, unit.end)
    for offset, depth, abbreviation in unit.walk():
        if before >= 0:
            # The entry before ends here: its bytes may hold the mark.
            while 0 <= place < before:
                place = unit.data.find(mark, place + 1, unit.end)
            if before <= place < offset:
                yield from _named(unit, before, function, around)
            if place < 0:
                return
        while around and around[-1][1] >= depth:
            around.pop()
        if abbreviation.tag == dw.SUBPROGRAM:
            around.append((offset, depth))
        before = offset if abbreviation.tag == dw.INLINED else -1
    if before >= 0 and unit.data.find(mark, before, unit.end) >= 0:
        yield from _named(unit, before, function, around)


def _named(unit: Unit, offset: int, function: Entry, around: list[tuple[int, int]]) -> Iterator[str]:
    declared = unit.entry(offset).follow(dw.ABSTRACT_ORIGIN)
    if declared is None or origin(declared).id != origin(function).id or not around:
        return
    caller = unit.entry(around[-1][0])
    if dw.INLINE in caller:
        return  # a text that was inlined itself: it runs where that stands
    if origin(caller).id == origin(function).id:
        return  # in itself, as GCC does with a rare part it split off, and with recursion: whoever runs it came by
    yield name_of(caller)
