"""The parts of an ELF file as values: constants, headers, notes, strings.

Source: System V ABI (gABI), chapters 4 and 5; the notes' layout is that of Elf64_Nhdr, which Elf32_Nhdr has too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.dataclass import NamedTuple, dataclass
from tracer.errors import TracerError

ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE, PT_GNU_EH_FRAME = 1, 2, 3, 4, 0x6474E550
PF_X, PF_W = 1, 2
SHF_EXECINSTR = 4
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL, SHT_DYNSYM = 2, 4, 8, 9, 11
SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF

MAX_STRING = 1 << 14
"""The most bytes of a name. A table whose names have no end would else be copied once for each."""


class Layout(NamedTuple):
    """The layouts of one class of files: `word` is the number of bytes of an address. `segment` tells the places of
    type, flags, offset, address and size among the fields of a program header.
    """

    word: int
    header: struct.Struct
    segments: struct.Struct
    segment: tuple[int, int, int, int, int]
    sections: struct.Struct
    dynamic: struct.Struct


ELF64 = Layout(
    8, struct.Struct("<HHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), (0, 1, 2, 3, 5), struct.Struct("<IIQQQQIIQQ"),
    struct.Struct("<qQ"),
)  # fmt: skip
ELF32 = Layout(
    4, struct.Struct("<HHIIIIIHHHHHH"), struct.Struct("<IIIIIIII"), (0, 6, 1, 2, 4), struct.Struct("<IIIIIIIIII"),
    struct.Struct("<iI"),
)  # fmt: skip


class ElfError(TracerError):
    """A file that is not, or not a whole and supported, ELF file."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A program header; sizes in bytes, `address` virtual."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int

    def holds(self, address: int) -> bool:
        """Whether the address lies in the part that comes from the file."""
        return self.address <= address < self.address + self.file_size


@dataclass(frozen=True, slots=True)
class Section:
    """A section header with its name looked up."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    entry_size: int


@dataclass(frozen=True, slots=True)
class Note:
    """One note: `name` without its terminating NUL; from `offset` to `end` in the data it came from."""

    name: bytes
    type: int
    description: bytes
    offset: int
    end: int


def string_at(table: bytes, offset: int) -> str:
    """The NUL-terminated string at an offset, at most `MAX_STRING` bytes of it; those that are not UTF-8 are escaped.
    "" beyond the table.
    """
    end = table.find(b"\0", offset, offset + MAX_STRING)
    return table[offset : end if end >= 0 else offset + MAX_STRING].decode("utf-8", "backslashreplace")


def notes(data: bytes) -> Iterator[Note]:
    """The notes of a section or segment, up to the first that does not fit into it."""
    offset = 0
    while offset + 12 <= len(data):
        name_size, description_size, kind = struct.unpack_from("<III", data, offset)
        name_at = offset + 12
        description_at = name_at + (name_size + 3 & ~3)
        end = description_at + description_size
        if end > len(data):
            return
        name = data[name_at : name_at + name_size].rstrip(b"\0")
        yield Note(name, kind, data[description_at:end], offset, end + 3 & ~3)
        offset = end + 3 & ~3
