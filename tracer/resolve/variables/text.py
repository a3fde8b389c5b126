"""What names mean where a line of a function's text has been reached: which variables are declared by then, and which
blocks of the text reach around the line though their code does not hold the address.

Debug information tells scopes by addresses. An optimised function's code is moved out of them, and a name would then
mean a variable further outside, which is another one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property

from tracer.kinds.site import FileSite
from tracer.resolve.dwarf.calls.stated_locations import is_llvms
from tracer.resolve.dwarf.functions import linked_name, name_of, origin, origins
from tracer.resolve.dwarf.inline_frames import line_table
from tracer.resolve.dwarf.lines.line_table import LineTable, Row
from tracer.resolve.dwarf.scopes import scope
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.ranges import code_of
from tracer.resolve.dwarf.units.unit import Entry, Unit
from tracer.resolve.variables.scopes import Found, abstract_blocks

Absent = list[tuple[str, int, int]]
"""Variables: the name, the line of the declaration, and how many calls further out it is."""


def line_of(entry: Entry) -> int:
    """The line at which a variable or function is declared, 0 where nothing says."""
    return next((each.number(dw.DECL_LINE) for each in origins(entry) if dw.DECL_LINE in each), 0) or 0


class Text:
    """The text of one function. `begin` says which place is asked about next."""

    def __init__(self, entries: Entries, function: Entry) -> None:
        self.entries, self.function = entries, function
        self._scopes: list[Entry] = []
        self._lines: list[tuple[str, int]] = []
        self._others: dict[int, LineTable | None] = {}

    def begin(self, scopes: list[Entry], site: FileSite) -> str:
        """Goes on with a place, in these scopes. Returns the name of the function that its line is of where no scope is
        that one's, and "" elsewhere.
        """
        other = self._owner(scopes, site)
        self._scopes = scopes
        self._lines = [] if other else list(self._reached(scopes, site))
        return other

    @cached_property
    def _unit(self) -> Unit | None:
        """The part of the function's unit that is in the traced file."""
        own = self.function.unit
        if own.file.skeleton is not None:
            return own.file.skeleton
        return own if own.file is self.entries else None

    @cached_property
    def _table(self) -> LineTable | None:
        return None if self._unit is None else line_table(self.entries, self._unit)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the function's code, in order."""
        if self._table is None:
            return ()
        return tuple(row for start, end in sorted(code_of(self.function)) for row in self._table.rows(start, end))

    def row(self, site: FileSite) -> Row | None:
        """The row of a site: of several lines that begin there, that of the line that is meant."""
        at = bisect_right(self.rows, site.address, key=lambda row: row.address) - 1
        here = self.rows[at].address if at >= 0 else 0
        for row in self.rows[: at + 1][::-1]:
            if row.address != here:
                break
            if row.line == site.line:
                return row
        return self.rows[at] if at >= 0 else None

    def is_another(self, found: Found) -> bool:
        """Whether an inner variable of the name is in scope in the text, and its block does not hold the address."""
        name, line = name_of(found.entry), line_of(found.entry)
        levels = [(level, at) for other, at, level in self._missing() if other == name]
        return any(found.level > level or (found.level == level and line < at) for level, at in levels)

    def _missing(self) -> Absent:
        """The variables of blocks that reach around the line in the text, and whose code does not hold the address."""
        scopes = self._scopes
        chain = {each.at for each in scopes}
        found: Absent = []
        level = len(self._lines)
        for scope_ in scopes:
            if scope_.tag != dw.LEXICAL_BLOCK:
                level = sum(each.tag == dw.INLINED for each in scopes[scopes.index(scope_) + 1 :])
                if level >= len(self._lines):
                    continue
                begin, (path, line) = line_of(scope_), self._lines[level]
                found += [
                    (name_of(each), at, level) for each in self._lost
                    if begin <= (at := line_of(each)) <= line and self._is_of_file(each, path)
                ]  # fmt: skip
                # Of blocks without code nothing says where they end; no caller's variable is taken for one of theirs.
                every = {one.id: one for block in abstract_blocks(scope_).values() for one in block}
                found += [(name_of(one), -1, level) for one in every.values() if line_of(one) <= line]
                left = [scope_]
                while left:
                    block = left.pop()
                    left += [each for each in block.children() if each.tag == dw.LEXICAL_BLOCK]
                    if block.at not in chain:
                        found += self._reaching(block, path, line, level)
        return found

    @cached_property
    def _lost(self) -> list[Entry]:
        """Static variables of inlined functions, which LLVM gives to a function without a name (seen in clang 14)."""
        tops = self.function.unit.top.children() if is_llvms(self.function) else ()
        nameless = (each for each in tops if each.tag == dw.SUBPROGRAM and not linked_name(each))
        return [one for each in nameless for one in each.children() if one.tag == dw.VARIABLE]

    def _reaching(self, block: Entry, path: str, line: int, level: int) -> Iterator[tuple[str, int, int]]:
        lines = [
            row.line for start, end in code_of(block) for row in self.between(start, end) if row.path == path
        ]  # fmt: skip
        for each in block.children():
            at = line_of(each) if each.tag == dw.VARIABLE else 0
            if at and lines and at <= line <= max(lines) and self._is_of_file(each, path):
                yield name_of(each), at, level

    def between(self, start: int, end: int) -> tuple[Row, ...]:
        """The rows of code from `start` to `end`."""
        first, last = (bisect_left(self.rows, place, key=lambda row: row.address) for place in (start, end))
        return self.rows[first:last]

    def _reached(self, scopes: list[Entry], site: FileSite) -> Iterator[tuple[str, int]]:
        row, paths = self.row(site), {} if self._table is None else self._table.paths
        yield ((row.path or "", row.line) if row is not None else ("", 0))
        for each in reversed(scopes):
            if each.tag == dw.INLINED:
                yield paths.get(each.number(dw.CALL_FILE) or 0, ""), each.number(dw.CALL_LINE) or 0

    def behind(self, found: Found) -> int:
        """The lines from a variable's declaration to the place, negative before it; 1 where that is not known."""
        line = line_of(found.entry)
        if found.level >= len(self._lines) or not line or found.entry.tag == dw.PARAMETER:
            return 1
        path, reached = self._lines[found.level]
        return reached - line if reached and self._is_of_file(found.entry, path) else 1

    def _owner(self, scopes: list[Entry], site: FileSite) -> str:
        """The name of the inlined function that the line at an address is of, where its copy is not said to begin
        there: names mean those of the function around. "" where that is not so.
        """
        row = self.row(site)
        if row is None or not row.line:
            return ""
        around = [origin(each) for each in scopes if each.tag != dw.LEXICAL_BLOCK]
        inside = {each.id: each for each in map(origin, self.inlined)}
        texts = {
            each.id: each for each in (*inside.values(), *around)
            if self._is_of_file(each, row.path) and (each.number(dw.DECL_LINE) or 0) <= row.line
        }  # fmt: skip
        last = max(texts.values(), key=lambda each: each.number(dw.DECL_LINE) or 0, default=None)
        if last is None or last.id in {each.id for each in around} or name_of(around[-1]) in scope(last):
            return ""
        return name_of(last)

    @cached_property
    def inlined(self) -> list[Entry]:
        """What was inlined into the function."""
        unit = self.function.unit
        return [unit.entry(at) for at, _, each in unit.walk(start=self.function.at) if each.tag == dw.INLINED]

    def file_of(self, function: Entry) -> str:
        """The source file that a function is declared in, "" where nothing says. Of link-time optimisation another
        unit says it.
        """
        stated = next((each for each in origins(function) if dw.DECL_FILE in each), None)
        if stated is None or stated.unit.file is not self.function.unit.file:
            return ""
        unit = stated.unit
        if unit.at == self.function.unit.at:
            table = self._table
        else:
            if unit.at not in self._others:
                self._others[unit.at] = line_table(self.entries, unit)
            table = self._others[unit.at]
        return "" if table is None else table.paths.get(stated.number(dw.DECL_FILE) or 0, "")

    def _is_of_file(self, entry: Entry, path: str | None) -> bool:
        """Whether a variable is declared in a source file."""
        table = self._table
        stated = next((each for each in origins(entry) if dw.DECL_FILE in each), None)
        if stated is None or table is None or stated.unit.file is not self.function.unit.file:
            return False
        same = stated.unit.at == self.function.unit.at
        return same and table.paths.get(stated.number(dw.DECL_FILE) or 0) == path
