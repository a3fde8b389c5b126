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
            found = _defined(data) if section.type == SHT_GNU_VERDEF else _needed(data)
            for number, at in islice(found, _MOST):
                names[number] = strings[at : max(strings.find(b"\0", at), at)].decode("utf-8", "backslashreplace")
    return names


def _chain(data: bytes, at: int, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The place and fields of each entry; the last field is how far away the next begins."""
    while at + layout.size <= len(data):
        fields = layout.unpack_from(data, at)
        yield at, fields
        if not fields[-1]:
            return
        at += fields[-1]


def _defined(data: bytes) -> Iterator[tuple[int, int]]:
    for at, (_, flags, number, _, _, first, _) in _chain(data, 0, _DEFINED):
        if not flags & _FILE_NAME and at + first + 4 <= len(data):
            yield number, struct.unpack_from("<I", data, at + first)[0]


def _needed(data: bytes) -> Iterator[tuple[int, int]]:
    for at, fields in _chain(data, 0, _NEEDED):
        for _, (_, _, number, name, _) in _chain(data, at + fields[3], _NEEDED_NAME):
            yield number & 0x7FFF, name
