"""Functions → the lines of their text that have code.

What was inlined into a function is of another text. Rows of both stand at one address, and before and behind the code
that the compiler says the copy has. So a line belongs to the last function that is declared before it, of those that
have code there. A lambda is declared in the text of its function and ends before that does: it is told by addresses.

Source: DWARF 5, 3.3.8 (inlined subroutines), 6.2 (line number information).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.debug_info import asked
from tracer.resolve.dwarf.functions import function_at, name_of, origin
from tracer.resolve.dwarf.scopes import scope
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import code_of
from tracer.resolve.dwarf.units.unit import Entry
from tracer.resolve.variables.text import Text, line_of


def lines_of(binary: Binary, addresses: Iterable[int], path: str) -> set[int]:
    """The lines of a source file that the functions at these addresses have. Raises `TracerError` where debug
    information is damaged.
    """
    found: set[int] = set()
    for address in addresses:
        found.update(asked(binary.path, "lines", f"{address} {path}", partial(_lines, address, path)) or ())
    return found


def _lines(address: int, path: str, entries: Entries) -> tuple[int, ...]:
    function = function_at(entries, address)
    return () if function is None else tuple(dict.fromkeys(own_lines(Text(entries, function), function, path)))


def own_lines(text: Text, function: Entry, path: str) -> Iterator[int]:
    """The lines in some code that are of a function: of its own, or of a copy of it in another."""
    own = origin(function)
    others = [each for each in (text.function, *text.inlined) if origin(each).id != own.id]
    nested = [each for each in others if name_of(function) in scope(each)]
    taken = [piece for each in nested for piece in code_of(each)]
    first = line_of(function)
    declared = {line_of(each) for each in others if each not in nested and text.file_of(each) == path}
    for row in text.rows:
        if row.is_stmt and row.path == path and row.line >= first:
            own_text = not any(first < line <= row.line for line in declared)
            if own_text and not any(start <= row.address < end for start, end in taken):
                yield row.line
