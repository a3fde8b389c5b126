"""Finds the lines of functions' texts that have code.

What was inlined into a function is of another text. Rows of both stand at one address, and before and behind the code
that the compiler says the copy has. So a line belongs to the last function that is declared before it, of those that
have code there. A lambda is declared in the text of its function and ends before that does: it is told by addresses.

Source: DWARF 5, 3.3.8 (inlined subroutines), 6.2 (line number information).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.debug_info import asked
from tracer.resolve.dwarf.functions import function_at, linked_name, name_of, origin
from tracer.resolve.dwarf.scopes import scope
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import code_of
from tracer.resolve.dwarf.units.unit import Entry
from tracer.resolve.variables.scopes import scopes_at
from tracer.resolve.variables.text import Text, line_of


def lines_of(binary: Binary, addresses: Iterable[int], path: str) -> set[int]:
    """The lines of a source file that the functions at these addresses have. Raises `TracerError` where debug
    information is damaged.
    """
    lines: set[int] = set()
    for address in addresses:
        lines.update(asked(binary.path, "lines", f"{address} {path}", partial(_lines, address, path)) or ())
    return lines


def of_others(binary: Binary, functions: Collection[int], places: Collection[int]) -> set[int]:
    """The places in code, of those given, that belong to another instance of the template whose instances begin at
    these addresses, or to a lambda in their text.
    """

    def find(entries: Entries) -> tuple[int, ...]:
        instances = [function for address in functions if (function := function_at(entries, address)) is not None]
        linked = {linked_name(origin(instance)) for instance in instances}
        lines = {line_of(instance) for instance in instances}
        names = {name_of(instance) for instance in instances}
        foreign = []
        for address in places:
            holder = function_at(entries, address)
            every = scopes_at(holder, address) if holder is not None else []
            texts = [entry for entry in every if entry.tag != dw.LEXICAL_BLOCK]
            others = [text for text in texts if linked_name(origin(text)) not in linked]
            nested = others[-1:] == texts[-1:] != [] and not names.isdisjoint(scope(others[-1]))
            if nested or any(line_of(other) in lines for other in others):
                foreign.append(address)
        return tuple(foreign)

    about = f"{sorted(functions)} {sorted(places)}"
    return set(asked(binary.path, "others", about, find) or ())


def _lines(address: int, path: str, entries: Entries) -> tuple[int, ...]:
    function = function_at(entries, address)
    return () if function is None else tuple(dict.fromkeys(own_lines(Text(entries, function), function, path)))


def own_lines(text: Text, function: Entry, path: str) -> Iterator[int]:
    """The lines in some code that are of a function: of its own, or of a copy of it in another."""
    declaration = origin(function)
    others = [entry for entry in (text.function, *text.inlined) if origin(entry).id != declaration.id]
    nested = [other for other in others if name_of(function) in scope(other)]
    taken = [piece for other in nested for piece in code_of(other)]
    first = line_of(function)
    declared = {line_of(other) for other in others if other not in nested and text.file_of(other) == path}
    for row in text.rows:
        if row.is_stmt and row.path == path and row.line >= first:
            own_text = not any(first < line <= row.line for line in declared)
            if own_text and not any(start <= row.address < end for start, end in taken):
                yield row.line
