"""The dynamic loader applies relocations when it loads a file. Source: gABI, chapter 4 (Elf64_Rela, Elf32_Rel)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.dataclass import NamedTuple
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import SHT_REL, SHT_RELA

_RELA, _REL = struct.Struct("<QQq"), struct.Struct("<II")

_WITHOUT_ADDEND = 6, 7
"""R_386_GLOB_DAT and R_386_JMP_SLOT: what stands in the slot before is no part of the sum."""


class Relocation(NamedTuple):
    """One relocation: `kind` is one of `arch.Relocations`, `symbol` the number of an entry of .dynsym."""

    address: int
    kind: int
    symbol: int
    addend: int


def relocations(elf: Elf) -> Iterator[Relocation]:
    """The relocations of all sections that are loaded. Those of i386 have their addend where they apply."""
    if elf.word == 4:
        yield from _relocations_32(elf)
        return
    for section in elf.sections:
        if section.type == SHT_RELA and section.address:
            content = elf.content(section)
            for place, info, addend in _RELA.iter_unpack(content[: len(content) // _RELA.size * _RELA.size]):
                yield Relocation(place, info & 0xFFFFFFFF, info >> 32, addend)


def _relocations_32(elf: Elf) -> Iterator[Relocation]:
    for section in elf.sections:
        if section.type == SHT_REL and section.address:
            content = elf.content(section)
            for place, info in _REL.iter_unpack(content[: len(content) // _REL.size * _REL.size]):
                kind, addend = info & 0xFF, 0
                if kind not in _WITHOUT_ADDEND:
                    addend = int.from_bytes(elf.memory(place, 4, "a relocated word") or b"", "little")
                yield Relocation(place, kind, info >> 8, addend)
