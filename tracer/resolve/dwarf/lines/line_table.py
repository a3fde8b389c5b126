"""The lines of one compile unit: which line of which file each of its addresses belongs to.

Source: DWARF 5, 6.2 (line number information).
"""

from __future__ import annotations

import os
import posixpath
import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import takewhile

from tracer.dataclass import NamedTuple
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.lines.headers import Header, Unit, read_header

_TRIED = 8
"""Sequences before an address that are looked at: those of code that the linker dropped stay, and may lie over others.
"""

# Opcodes, and behind a zero byte extended ones (DWARF 5, 6.2.5.2 and 6.2.5.3).
_COPY, _ADVANCE_ADDRESS, _ADVANCE_LINE, _SET_FILE, _SET_COLUMN, _NEGATE_IS_STMT = 1, 2, 3, 4, 5, 6
_ADD_OF_255, _FIXED_ADVANCE = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2


class Row(NamedTuple):
    """One row of the line table; `path` is None for files that were not asked for, whose rows in a run are one."""

    path: str | None
    line: int
    column: int
    address: int
    is_stmt: bool


Sequence = tuple[Row, ...]
"""Rows of contiguous code in order of address. The last only marks the end: its line is 0."""


class LineTable:
    """The table of the line program `unit` in the section `lines`; `names` is `.debug_line_str`, and `home` the
    directory that relative names start from, where the program itself does not have it.
    """

    def __init__(self, lines: bytes, unit: Unit, names: bytes, home: bytes = b"") -> None:
        header = read_header(lines, unit, names)
        self.paths = dict(paths_of(header, home))
        sequences = [rows for rows in decode(lines[unit.code : unit.end], header, self.paths) if rows[0].address]
        self._sequences = sorted(sequences, key=lambda rows: rows[0].address)
        self._starts = [sequence[0].address for sequence in self._sequences]

    def rows(self, start: int, end: int) -> Iterator[Row]:
        """The rows of code from `start` to `end`, in order."""
        last = bisect_right(self._starts, start)
        for sequence in self._sequences[max(last - _TRIED, 0) : bisect_right(self._starts, end)]:
            yield from (row for row in sequence[:-1] if start <= row.address < end)

    def row_at(self, address: int, line: int = 0) -> Row | None:
        """The row that an address belongs to, of several the last, or that of a line; None where the unit has no code
        there.
        """
        last = bisect_right(self._starts, address)
        for sequence in reversed(self._sequences[max(last - _TRIED, 0) : last]):
            if address < sequence[-1].address:
                place = bisect_right(sequence, address, key=lambda row: row.address)
                return _of_line(sequence, place - 1, line)
        return None


def _of_line(sequence: Sequence, last: int, line: int) -> Row:
    """The last row of a line among the rows of one address, of which the last is given; the last where none is."""
    begun = takewhile(lambda row: row.address == sequence[last].address, sequence[last::-1])
    return next((row for row in begun if row.line == line), sequence[last])


def paths_of(header: Header, home: bytes) -> Iterator[tuple[int, str]]:
    """The paths of a unit's files by the number that rows use for them."""
    directories = header.directories
    home = posixpath.join(home, directories[0]) if directories else home
    for number, (name, directory) in enumerate(header.files, header.first):
        if name:
            within = directories[directory] if 0 < directory < len(directories) else b""
            yield number, os.fsdecode(posixpath.normpath(posixpath.join(home, within, name)))


def decode(code: bytes, header: Header, wanted: dict[int, str]) -> Iterator[Sequence]:
    """The sequences of a line program that have rows of the wanted files, given by number. Raises `IndexError` or
    `struct.error` where it is cut off.
    """
    base, step = len(header.operands) + 1, header.step
    # What each special opcode adds to address and line.
    special = [
        (step * (adjusted // header.line_range), header.line_base + adjusted % header.line_range)
        for adjusted in range(256 - base)
    ]
    file_of, new = wanted.get, tuple.__new__
    offset, end = 0, len(code)
    while offset < end:
        rows: list[Row] = []
        address, number, line, column, is_stmt = 0, 1, 1, 0, header.is_stmt
        path, any_wanted, other_line = file_of(number), False, -1
        ended = False
        while offset < end and not ended:
            opcode = code[offset]
            offset += 1
            if opcode >= base:
                more, lines = special[opcode - base]
                address += more
                line += lines
            elif opcode == _ADVANCE_LINE:
                value, offset = leb(code, offset, signed=True)
                line += value
                continue
            elif opcode == 0:
                size, offset = leb(code, offset)
                kind, operand = code[offset], offset + 1
                offset += size
                if kind == _SET_ADDRESS:
                    (address,) = struct.unpack_from("<I" if size == 5 else "<Q", code, operand)
                if kind != _END_SEQUENCE:
                    continue
                ended = True
            elif opcode == _FIXED_ADVANCE:
                address += int.from_bytes(code[offset : offset + 2], "little")
                offset += 2
                continue
            elif opcode != _COPY:
                value = 0
                for _ in range(header.operands[opcode - 1]):
                    value, offset = leb(code, offset)
                if opcode == _ADVANCE_ADDRESS:
                    address += step * value
                elif opcode == _SET_FILE:
                    number = value
                    path = file_of(number)
                elif opcode == _SET_COLUMN:
                    column = value
                elif opcode == _NEGATE_IS_STMT:
                    is_stmt = not is_stmt
                elif opcode == _ADD_OF_255:
                    address += special[-1][0]
                continue
            if ended:
                rows.append(Row(None, 0, 0, address, False))
            elif path is not None:
                rows.append(new(Row, (path, line, column, address, is_stmt)))
                any_wanted, other_line = True, -1
            elif other_line != bool(line):
                rows.append(Row(None, line, column, address, is_stmt))
                other_line = bool(line)
        if ended and any_wanted:
            yield tuple(rows)
