"""Line programs: which addresses a compiler says the lines of a source file begin at.

`.debug_line` is one line program per compile unit: a header with the table of its source files, and a byte code that
yields the rows (address, file, line, column, is_stmt, …). A unit is decoded only where its header can name the file at
all, told by the bytes of the name: in the header itself, or by the name's offset in `.debug_line_str`. Of libc's 2,063
units that leaves one for malloc.c and the 372 that include stdlib.h.

Before DWARF 5 the directory that relative names start from is not in `.debug_line` but an attribute of the compile
unit (DW_AT_comp_dir), which costs reading `.debug_info` as well.

Sources: DWARF 5, 6.2 (line number information) and 7.5.1 (unit headers); gABI, "Section Compression".
"""

from __future__ import annotations

import os
import posixpath
import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from tracer.errors import TracerError
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.line_headers import MAX_PATH, Header, Unit, read_header, units
from tracer.resolve.dwarf.sections import content
from tracer.resolve.elf.file import Elf

_MANY_REFERENCES = 256
_TOP_DIE = 1 << 14
"""More than the attributes of a compile unit take before DW_AT_stmt_list: two paths and the compiler's options."""

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


class LinePrograms:
    """The line programs of one file, decoded when a source file is asked for."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._known: dict[str, tuple[Sequence, ...]] = {}

    @property
    def present(self) -> bool:
        """Whether the file has any."""
        section = self._elf.section(".debug_line")
        return section is not None and section.size > 0 and bool(self._elf.content(section))

    def of_file(self, pattern: str) -> tuple[Sequence, ...]:
        """Every sequence that has rows of a source file whose path ends in `pattern`, on whole components.

        Raises `TracerError` where the line table is damaged.
        """
        pattern = posixpath.normpath(pattern)
        if pattern not in self._known:
            try:
                self._known[pattern] = tuple(self._sequences(pattern))
            except _damage() as error:
                raise self._elf.error(f"its line table cannot be read: {error}") from None
        return self._known[pattern]

    def source_names(self) -> set[str]:
        """Names of source files without their directories, roughly: what to compare a misspelt one with."""
        import re

        named = rb"[\w.+\-]+\.(?:cc?|cpp|cxx|hh?|hpp|rs|go|S|s|zig|d|f90|pas|adb|swift)(?=\0)"
        try:
            return {os.fsdecode(each) for text in (self._names, self._lines) for each in re.findall(named, text)}
        except TracerError:
            return set()

    @cached_property
    def _lines(self) -> bytes:
        return content(self._elf, ".debug_line")

    @cached_property
    def _names(self) -> bytes:
        return content(self._elf, ".debug_line_str")

    def _candidates(self, name: bytes) -> list[Unit]:
        """The units whose header may name a file that ends in `name`."""
        inline = name + b"\0"
        references = [struct.pack("<I", each) for each in _starts(self._names, inline)]
        many = len(references) > _MANY_REFERENCES  # then reading the units' tables takes less than searching for them
        result = []
        for unit in units(self._lines):
            header = self._lines[unit.start : unit.code]
            if inline in header or (unit.version >= 5 and (many or any(each in header for each in references))):
                result.append(unit)
        return result

    def _sequences(self, pattern: str) -> Iterator[Sequence]:
        candidates = self._candidates(os.fsencode(posixpath.basename(pattern)))
        homes = self._directories_before_5({unit.start for unit in candidates if unit.version < 5})
        for unit in candidates:
            header = read_header(self._lines, unit, self._names)
            paths = paths_of(header, homes.get(unit.start, b""))
            wanted = {number: path for number, path in paths if _ends_in(path, pattern)}
            if wanted:
                yield from decode(self._lines[unit.code : unit.end], header, wanted)

    def _directories_before_5(self, wanted: set[int]) -> dict[int, bytes]:
        """DW_AT_comp_dir by the place of the unit's line program."""
        section = self._elf.section(".debug_info")
        if not wanted or section is None or not self._elf.content(section):
            return {}
        from elftools.elf.elffile import ELFFile

        marks = [struct.pack("<I", each) for each in wanted]
        found: dict[int, bytes] = {}
        with open(self._elf.path, "rb") as file:
            dwarf = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False)
            info = content(self._elf, ".debug_info")
            at = 0
            while at + 11 <= len(info) and len(found) < len(wanted):
                (length,) = struct.unpack_from("<I", info, at)
                size = 12 if length == 0xFFFFFFFF else 4
                if size == 12:
                    (length,) = struct.unpack_from("<Q", info, at + 4)
                end = at + size + length
                # Parsing a unit's abbreviations is what takes time: only where the offset can stand in its first entry.
                beginning = info[at : min(end, at + _TOP_DIE)]
                if any(mark in beginning for mark in marks):
                    attributes = dwarf.get_CU_at(at).get_top_DIE().attributes
                    program, home = attributes.get("DW_AT_stmt_list"), attributes.get("DW_AT_comp_dir")
                    if program is not None and home is not None and isinstance(home.value, bytes):
                        found[program.value] = home.value
                at = end
        return found


def _damage() -> tuple[type[BaseException], ...]:
    """What pyelftools raises on input that makes no sense."""
    from elftools.common.exceptions import DWARFError, ELFError

    nonsense = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
    return (DWARFError, ELFError, OSError, *nonsense)


def _starts(strings: bytes, inline: bytes) -> set[int]:
    """Every offset of a string table from which a string ends in `inline`: linkers let strings share their ends."""
    result: set[int] = set()
    at = strings.find(inline)
    while at >= 0:
        first = max(at - MAX_PATH, 0)
        result.update(range(max(strings.rfind(b"\0", first, at) + 1, first), at + 1))
        at = strings.find(inline, at + 1)
    return result


def paths_of(header: Header, home: bytes) -> Iterator[tuple[int, str]]:
    """The paths of a unit's files by the number that rows use for them."""
    directories = header.directories
    home = posixpath.join(home, directories[0]) if directories else home
    for number, (name, directory) in enumerate(header.files, header.first):
        if name:
            within = directories[directory] if 0 < directory < len(directories) else b""
            yield number, os.fsdecode(posixpath.normpath(posixpath.join(home, within, name)))


def _ends_in(path: str, pattern: str) -> bool:
    return path == pattern or path.endswith(f"/{pattern}")


def decode(code: bytes, header: Header, wanted: dict[int, str]) -> Iterator[Sequence]:
    """The sequences of a line program that have rows of the wanted files, given by number. Raises `IndexError` or
    `struct.error` where it is cut off.
    """
    base, step = len(header.operands) + 1, header.step
    # What each special opcode adds to address and line.
    special = [
        (step * (each // header.line_range), header.line_base + each % header.line_range) for each in range(256 - base)
    ]
    file_of, new = wanted.get, tuple.__new__
    at, end = 0, len(code)
    while at < end:
        rows: list[Row] = []
        address, number, line, column, is_stmt = 0, 1, 1, 0, header.is_stmt
        path, any_wanted, other_line = file_of(number), False, -1
        ended = False
        while at < end and not ended:
            opcode = code[at]
            at += 1
            if opcode >= base:
                more, lines = special[opcode - base]
                address += more
                line += lines
            elif opcode == _ADVANCE_LINE:
                value, at = leb(code, at, signed=True)
                line += value
                continue
            elif opcode == 0:
                size, at = leb(code, at)
                kind, operand = code[at], at + 1
                at += size
                if kind == _SET_ADDRESS:
                    (address,) = struct.unpack_from("<Q", code, operand)
                if kind != _END_SEQUENCE:
                    continue
                ended = True
            elif opcode == _FIXED_ADVANCE:
                address += int.from_bytes(code[at : at + 2], "little")
                at += 2
                continue
            elif opcode != _COPY:
                value = 0
                for _ in range(header.operands[opcode - 1]):
                    value, at = leb(code, at)
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

