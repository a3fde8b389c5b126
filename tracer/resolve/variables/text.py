"""Tells what names mean where a line of a function's text has been reached: which variables are declared, and which
blocks of the text reach around the line though their code does not hold the address.

Debug information tells scopes by addresses. An optimised function's code is moved out of them, and a name would then
mean a variable further outside, which is another one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

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


class _Block(NamedTuple):
    """A block of the text: where its entry stands, the last line of each source file that its code is of, and its
    variables: the name, the line and the source file of the declaration.
    """

    place: int
    last: dict[str | None, int]
    variables: list[tuple[str, int, str | None]]


Absent = list[tuple[str, int, int]]
"""Variables: the name, the line of the declaration, and how many calls further out it is."""


def line_of(entry: Entry) -> int:
    """The line at which a variable or function is declared, 0 where nothing says."""
    return next((origin.number(dw.DECL_LINE) for origin in origins(entry) if dw.DECL_LINE in origin), 0) or 0


class Text:
    """The text of one function. `begin` says which place is asked about next."""

    def __init__(self, entries: Entries, function: Entry) -> None:
        self.entries, self.function = entries, function
        self._scopes: list[Entry] = []
        self._lines: list[tuple[str, int]] = []
        self._absent: Absent | None = None
        self._blocks: dict[int, list[_Block]] = {}
        self._others: dict[int, LineTable | None] = {}

    def begin(self, scopes: list[Entry], site: FileSite) -> str:
        """Goes on with a place, in these scopes. Returns the name of the function that its line is of where no scope is
        that one's, and "" elsewhere.
        """
        other = self._owner(scopes, site)
        self._scopes = scopes
        self._lines = [] if other else list(self._reached(scopes, site))
        self._absent = None
        return other

    @cached_property
    def _unit(self) -> Unit | None:
        """The part of the function's unit that is in the traced file."""
        unit = self.function.unit
        if unit.file.skeleton is not None:
            return unit.file.skeleton
        return unit if unit.file is self.entries else None

    @cached_property
    def _table(self) -> LineTable | None:
        return None if self._unit is None else line_table(self.entries, self._unit)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the function's code, in order."""
        if self._table is None:
            return ()
        return tuple(row for start, end in sorted(code_of(self.function)) for row in self._table.rows(start, end))

    @cached_property
    def first_of_line(self) -> dict[int, int]:
        """The lowest address of the function's code at each line."""
        return {row.line: row.address for row in sorted(self.rows, key=lambda row: -row.address)}

    def row(self, site: FileSite) -> Row | None:
        """The row of a site: of several lines that begin there, that of the line that is meant."""
        index = bisect_right(self.rows, site.address, key=lambda row: row.address) - 1
        here = self.rows[index].address if index >= 0 else 0
        for row in self.rows[: index + 1][::-1]:
            if row.address != here:
                break
            if row.line == site.line:
                return row
        return self.rows[index] if index >= 0 else None

    def is_another(self, variable: Found) -> bool:
        """Whether an inner variable of the name is in scope in the text, and its block does not hold the address."""
        name, line = name_of(variable.entry), line_of(variable.entry)
        if self._absent is None:
            self._absent = self._missing()
        levels = ((level, declared) for other, declared, level in self._absent if other == name)
        # Deeper, or as deep and declared above it.
        return any((level, line) < (variable.level, declared) for level, declared in levels)

    def _missing(self) -> Absent:
        """The variables of blocks that reach around the line in the text, and whose code does not hold the address."""
        scopes = self._scopes
        chain = {scope.offset for scope in scopes}
        absent: Absent = []
        level = len(self._lines)
        for scope_ in scopes:
            if scope_.tag != dw.LEXICAL_BLOCK:
                level = sum(inner.tag == dw.INLINED for inner in scopes[scopes.index(scope_) + 1 :])
                if level >= len(self._lines):
                    continue
                begin, (path, line) = line_of(scope_), self._lines[level]
                absent += [
                    (name_of(variable), declared, level) for variable in self._lost
                    if begin <= (declared := line_of(variable)) <= line and self._is_of_file(variable, path)
                ]  # fmt: skip
                # Of blocks without code nothing says where they end; no caller's variable is taken for one of theirs.
                every = {one.id: one for block in abstract_blocks(scope_).values() for one in block}
                absent += [(name_of(one), -1, level) for one in every.values() if line_of(one) <= line]
                for block in self._blocks_of(scope_):
                    if block.place in chain or line > block.last.get(path, 0):
                        continue
                    absent += [
                        (name, declared, level)
                        for name, declared, of in block.variables
                        if declared <= line and of == path
                    ]
        return absent

    def _blocks_of(self, scope_: Entry) -> list[_Block]:
        """A scope and the blocks in it that belong to the same call."""
        if scope_.offset not in self._blocks:
            blocks, rest = [], [scope_]
            while rest:
                block = rest.pop()
                children = list(block.children())
                rest += [child for child in children if child.tag == dw.LEXICAL_BLOCK]
                last: dict[str | None, int] = {}
                for start, end in code_of(block):
                    for row in self.between(start, end):
                        last[row.path] = max(row.line, last.get(row.path, 0))
                declared = ((child, line_of(child)) for child in children if child.tag == dw.VARIABLE)
                variables = [(name_of(child), line, self._declared_in(child)) for child, line in declared if line]
                blocks.append(_Block(block.offset, last, variables))
            self._blocks[scope_.offset] = blocks
        return self._blocks[scope_.offset]

    @cached_property
    def _lost(self) -> list[Entry]:
        """Static variables of inlined functions, which LLVM gives to a function without a name (seen in clang 14)."""
        tops = self.function.unit.top.children() if is_llvms(self.function) else ()
        nameless = (function for function in tops if function.tag == dw.SUBPROGRAM and not linked_name(function))
        return [one for function in nameless for one in function.children() if one.tag == dw.VARIABLE]

    def between(self, start: int, end: int) -> tuple[Row, ...]:
        """The rows of code from `start` to `end`."""
        first, last = (bisect_left(self.rows, place, key=lambda row: row.address) for place in (start, end))
        return self.rows[first:last]

    def _reached(self, scopes: list[Entry], site: FileSite) -> Iterator[tuple[str, int]]:
        row, paths = self.row(site), {} if self._table is None else self._table.paths
        yield ((row.path or "", row.line) if row is not None else ("", 0))
        for scope_ in reversed(scopes):
            if scope_.tag == dw.INLINED:
                yield paths.get(scope_.number(dw.CALL_FILE) or 0, ""), scope_.number(dw.CALL_LINE) or 0

    def behind(self, variable: Found) -> int:
        """The lines from a variable's declaration to the place, negative before it; 1 where that is not known."""
        line = line_of(variable.entry)
        if variable.level >= len(self._lines) or not line or variable.entry.tag == dw.PARAMETER:
            return 1
        path, reached = self._lines[variable.level]
        return reached - line if reached and self._is_of_file(variable.entry, path) else 1

    def _owner(self, scopes: list[Entry], site: FileSite) -> str:
        """The name of the inlined function that the line at an address is of, where its copy is not said to begin
        there: names mean those of the function around. "" where that is not so.
        """
        row = self.row(site)
        if row is None or not row.line:
            return ""
        around = [origin(scope) for scope in scopes if scope.tag != dw.LEXICAL_BLOCK]
        texts = [
            (line, function)
            for function, path, line in (*self._inlined_texts, *map(self._declaration, around))
            if path == row.path and line <= row.line
        ]
        last = max(texts, key=itemgetter(0), default=(0, None))[1]
        if last is None or last.id in {function.id for function in around} or name_of(around[-1]) in scope(last):
            return ""
        return name_of(last)

    @cached_property
    def _inlined_texts(self) -> list[tuple[Entry, str | None, int]]:
        """Functions that were inlined, each with the source file and the line of its declaration."""
        functions = {function.id: function for function in map(origin, self.inlined)}
        return list(map(self._declaration, functions.values()))

    def _declaration(self, function: Entry) -> tuple[Entry, str | None, int]:
        return function, self._declared_in(function), function.number(dw.DECL_LINE) or 0

    @cached_property
    def inlined(self) -> list[Entry]:
        """The copies that were inlined into the function."""
        unit = self.function.unit
        walked = unit.walk(start=self.function.offset)
        return [unit.entry(place) for place, _, abbreviation in walked if abbreviation.tag == dw.INLINED]

    def file_of(self, function: Entry) -> str:
        """The source file that a function is declared in, "" where nothing says. Of link-time optimisation another
        unit says it.
        """
        stated = next((origin for origin in origins(function) if dw.DECL_FILE in origin), None)
        if stated is None or stated.unit.file is not self.function.unit.file:
            return ""
        unit = stated.unit
        if unit.offset == self.function.unit.offset:
            table = self._table
        else:
            if unit.offset not in self._others:
                self._others[unit.offset] = line_table(self.entries, unit)
            table = self._others[unit.offset]
        return "" if table is None else table.paths.get(stated.number(dw.DECL_FILE) or 0, "")

    def _is_of_file(self, entry: Entry, path: str | None) -> bool:
        """Whether a variable is declared in a source file."""
        return path is not None and self._declared_in(entry) == path

    def _declared_in(self, entry: Entry) -> str | None:
        """The source file that a variable is declared in, None where that is not known."""
        table, unit = self._table, self.function.unit
        stated = next((origin for origin in origins(entry) if dw.DECL_FILE in origin), None)
        if stated is None or table is None or stated.unit.file is not unit.file or stated.unit.offset != unit.offset:
            return None
        return table.paths.get(stated.number(dw.DECL_FILE) or 0)
