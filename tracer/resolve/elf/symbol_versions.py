"""The names of symbol versions: those that a file defines, and those that it needs of other libraries.

Both have numbers out of one range, and `.gnu.version` has such a number for each dynamic symbol.
Source: Linux Standard Base Core 5.0, chapter 10.7 (Elf64_Verdef, Elf64_Verneed).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice

from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import SHT_GNU_VERDEF, SHT_GNU_VERNEED

_DEFINED = struct.Struct("<HHHHIII")
_NEEDED = struct.Struct("<HHIII")
_NEEDED_NAME = struct.Struct("<IHHII")
_FILE_NAME = 1  # VER_FLG_BASE
_MOST = 1 << 15


def version_names(elf: Elf) -> dict[int, str]:
    """The version of each number; of damaged tables what can be read."""
    names: dict[int, str] = {}
    for section in elf.sections:
        if section.type in (SHT_GNU_VERDEF, SHT_GNU_VERNEED):
            data, strings = elf.content(section), elf.content(elf.linked(section))
            versions = _defined(data) if section.type == SHT_GNU_VERDEF else _needed(data)
            for number, offset in islice(versions, _MOST):
                end = max(strings.find(b"\0", offset), offset)
                names[number] = strings[offset:end].decode("utf-8", "backslashreplace")
    return names


def _chain(data: bytes, offset: int, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The place and fields of each entry; the last field is how far away the next begins."""
    while offset + layout.size <= len(data):
        fields = layout.unpack_from(data, offset)
        yield offset, fields
        if not fields[-1]:
            return
        offset += fields[-1]


def _defined(data: bytes) -> Iterator[tuple[int, int]]:
    for offset, (_, flags, number, _, _, first, _) in _chain(data, 0, _DEFINED):
        if not flags & _FILE_NAME and offset + first + 4 <= len(data):
            yield number, struct.unpack_from("<I", data, offset + first)[0]


def _needed(data: bytes) -> Iterator[tuple[int, int]]:
    for offset, fields in _chain(data, 0, _NEEDED):
        for _, (_, _, number, name, _) in _chain(data, offset + fields[3], _NEEDED_NAME):
            yield number & 0x7FFF, name
