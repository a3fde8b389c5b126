"""Relocations, which the dynamic loader fills in when it loads a file. Source: gABI, chapter 4 (Elf64_Rela)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tracer.dataclass import NamedTuple
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import SHT_RELA

_RELA = struct.Struct("<QQq")


class Relocation(NamedTuple):
    """`kind` is one of `arch.Relocations`, `symbol` the number of an entry of .dynsym."""

    address: int
    kind: int
    symbol: int
    addend: int


def relocations(elf: Elf) -> Iterator[Relocation]:
    """The relocations of all sections that are loaded."""
    for section in elf.sections:
        if section.type == SHT_RELA and section.address:
            content = elf.content(section)
            for place, info, addend in _RELA.iter_unpack(content[: len(content) // _RELA.size * _RELA.size]):
                yield Relocation(place, info & 0xFFFFFFFF, info >> 32, addend)
