"""The headers of line programs: which source files a compile unit is made of.

Read here and not by pyelftools, which takes 10 ms for each and hangs on one that claims 2**60 entries of no size.
Source: DWARF 5, 6.2.4, and DWARF 4, 6.2.4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.dataclass import dataclass
from tracer.resolve.dwarf.leb import leb

MAX_PATH = 4096
"""The most bytes of a source file's name: entries may all refer to one that does not end."""

_PATH, _DIRECTORY = 1, 2  # DW_LNCT_path, DW_LNCT_directory_index
_SIZES = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}  # DW_FORM_data1, …2, …4, …8, …16
_STRING, _STRP, _LINE_STRP, _UDATA, _BLOCK = 0x08, 0x0E, 0x1F, 0x0F, 0x09


@dataclass(frozen=True, slots=True)
class Unit:
    """One line program: it lies from `start` to `end` in `.debug_line`, its offsets have 4 or 8 bytes, and its header's
    fields and its code begin at `fields` and `code`.
    """

    start: int
    end: int
    version: int
    offset_size: int
    fields: int
    code: int


@dataclass(frozen=True, slots=True)
class Header:
    """The contents of a header. `files` are names with the numbers of their directories; the first has the number
    `first`.

    Directory 0 is where the compiler ran; before DWARF 5 it is not in the header, and "" here. `step` is the length of
    the shortest instruction; `operands` is how many numbers follow each standard opcode, from opcode 1 on.
    """

    directories: list[bytes]
    files: list[tuple[bytes, int]]
    first: int
    step: int
    is_stmt: bool
    line_base: int
    line_range: int
    operands: bytes


def units(data: bytes, offset: int = 0) -> Iterator[Unit]:
    """The line programs of a `.debug_line` section, from a place on. Raises `ValueError` where it is cut off."""
    while offset + 16 <= len(data):
        start, size = offset, 4
        (length,) = struct.unpack_from("<I", data, offset)
        offset += 4
        if length == 0xFFFFFFFF:
            size = 8
            (length,) = struct.unpack_from("<Q", data, offset)
            offset += 8
        place, offset = offset, offset + length
        if offset > len(data):
            raise ValueError("it is cut off")
        version = int.from_bytes(data[place : place + 2], "little")
        place += 4 if version >= 5 else 2
        fields = place + size
        code = fields + int.from_bytes(data[place:fields], "little")
        if 2 <= version <= 5 and fields < code <= offset:
            yield Unit(start, offset, version, size, fields, code)


def read_header(data: bytes, unit: Unit, names: bytes) -> Header:
    """The header of a unit; `names` is `.debug_line_str`. Raises `ValueError` or `IndexError` where it is damaged."""
    cursor = _Cursor(data[unit.fields : unit.code])
    step = cursor.number(1)
    if unit.version >= 4 and cursor.number(1) != 1:
        raise ValueError("a header is of a processor with several operations in an instruction")
    is_stmt = bool(cursor.number(1))
    line_base = (cursor.number(1) ^ 0x80) - 0x80
    line_range = cursor.number(1)
    operands = cursor.take(max(cursor.number(1) - 1, 0))
    if not line_range:
        raise ValueError("a header has steps of no line")
    if unit.version >= 5:
        directories = [name for name, _ in cursor.table(unit.offset_size, names)]
        files, first = list(cursor.table(unit.offset_size, names)), 0
    else:
        directories, files, first = [b"", *iter(cursor.string, b"")], [], 1
        while name := cursor.string():
            files.append((name, cursor.uleb()))
            cursor.uleb()  # time of modification
            cursor.uleb()  # size
    return Header(directories, files, first, step, is_stmt, line_base, line_range, operands)


class _Cursor:
    """Reads forward through bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def take(self, size: int) -> bytes:
        self.offset += size
        if self.offset > len(self.data):
            raise ValueError("a header is cut off")
        return self.data[self.offset - size : self.offset]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def uleb(self) -> int:
        value, self.offset = leb(self.data, self.offset)
        return value

    def string(self) -> bytes:
        end = self.data.index(b"\0", self.offset)
        text = self.data[self.offset : end]
        self.offset = end + 1
        return text

    def table(self, offset_size: int, names: bytes) -> Iterator[tuple[bytes, int]]:
        """A table of DWARF 5, whose entries have the fields that it says first."""
        formats = [(self.uleb(), self.uleb()) for _ in range(self.number(1))]
        count = self.uleb()
        if count and not formats:
            raise ValueError("a header has entries of no size")
        for _ in range(count):
            name, directory = b"", 0
            for content, form in formats:
                value = self._value(form, offset_size, names)
                if content == _PATH and isinstance(value, bytes):
                    name = value
                elif content == _DIRECTORY and isinstance(value, int):
                    directory = value
            yield name, directory

    def _value(self, form: int, offset_size: int, names: bytes) -> bytes | int:
        """A field, which always takes some bytes. Names in `.debug_str` are not looked up: compilers put none there."""
        if form == _LINE_STRP:
            offset = self.number(offset_size)
            return names[offset : names.index(b"\0", offset, offset + MAX_PATH)]
        if form == _STRING:
            return self.string()
        if form == _UDATA:
            return self.uleb()
        if form == _BLOCK:
            return self.take(self.uleb())
        if form == _STRP:
            return self.number(offset_size)
        if form not in _SIZES:
            raise ValueError(f"a header has fields of the unknown form {form:#x}")
        return self.number(_SIZES[form])
