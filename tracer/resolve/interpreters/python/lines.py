"""Finds the line of an instruction of a code object in the table that CPython keeps, in the three forms it has had.

Sources: Objects/lnotab_notes.txt (up to 3.10), Objects/locations.md (from 3.11 on) of CPython. Instructions are counted
in code units of two bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

_NO_LOCATION, _LONG, _NO_COLUMNS, _ONE_LINE = 15, 14, 13, 10
_WIDEST = 36
"""Bits of a number: CPython's are ints. A process may have anything in its memory."""


def line_of(minor: int, table: bytes, first: int, instruction: int) -> int | None:
    """The line in Python 3.`minor` of a function whose first line is `first`; None for what has none."""
    if instruction < 0:
        return first
    ranges = _locations if minor > 10 else _line_table if minor == 10 else _lnotab
    for end, line in ranges(table, first):
        if end is None or 2 * instruction < end:
            return line
    return None


def _lnotab(table: bytes, first: int) -> Iterator[tuple[int | None, int | None]]:
    """The end of each range in bytes, None for the last, and its line."""
    address, line = 0, first
    for position in range(0, len(table) - 1, 2):
        address += table[position]
        yield address, line
        line += _signed(table[position + 1])
    yield None, line


def _line_table(table: bytes, first: int) -> Iterator[tuple[int | None, int | None]]:
    end, line = 0, first
    for position in range(0, len(table) - 1, 2):
        end += table[position]
        step = _signed(table[position + 1])
        if step == -128:
            yield end, None
        else:
            line += step
            yield end, line


def _locations(table: bytes, first: int) -> Iterator[tuple[int | None, int | None]]:
    position, end, line = 0, 0, first
    while position < len(table):
        head = table[position]
        kind = head >> 3 & 15
        end += 2 * ((head & 7) + 1)
        position += 1
        if kind in (_LONG, _NO_COLUMNS):
            value, position = _varint(table, position)
            line += -(value >> 1) if value & 1 else value >> 1
        elif _ONE_LINE <= kind < _NO_COLUMNS:
            line += kind - _ONE_LINE
        # Columns follow: each entry begins with a byte whose highest bit is set, and no other byte has that.
        while position < len(table) and not table[position] & 128:
            position += 1
        yield end, None if kind == _NO_LOCATION else line


def _varint(table: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(table):
        byte = table[position]
        position += 1
        if shift < _WIDEST:
            value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return value, position


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
