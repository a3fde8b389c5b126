"""The tables that the loader uses, as sections, for a file that has no section headers (packers, `llvm-strip
--strip-sections`). Nothing else of it has a name: neither .symtab, nor debug information, nor the notes of USDT probes.

The dynamic section gives addresses, and no number of symbols: the hash tables do. Sources: gABI, chapter 5 (Dynamic
Section, Hash Table); the GNU hash table as glibc's dl-lookup.c reads it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from tracer.resolve.elf.structures import (
    SHT_DYNSYM,
    SHT_GNU_VERDEF,
    SHT_GNU_VERNEED,
    SHT_GNU_VERSYM,
    SHT_REL,
    SHT_RELA,
    Section,
    Segment,
)

_HASH, _STRTAB, _SYMTAB, _RELA, _RELASZ, _STRSZ, _PLTRELSZ, _PLTREL, _JMPREL = 4, 5, 6, 7, 8, 10, 2, 20, 23
_REL, _RELSZ = 17, 18
_GNU_HASH, _VERSYM, _VERDEF, _VERNEED = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE
_SHT_STRTAB, _ALLOC, _STRINGS = 3, 2, 1
_SYMBOL = {4: 16, 8: 24}
"""The bytes of a symbol, by the bytes of an address."""
_MOST_CHAINED = 1 << 16
"""The most bytes of a chain; most chains have a few entries."""
_MOST_VERSIONS = 1 << 20
"""The most bytes of a table of versions, whose end only its entries tell."""

Memory = Callable[[int, int, str], "bytes | None"]
"""Reads what the file holds for an address, as `Elf.memory` does."""


def dynamic_sections(
    tags: Mapping[int, int], segment_at: Callable[[int], Segment | None], memory: Memory, word: int
) -> tuple[Section, ...]:
    """The sections that the entries of the dynamic section lead to; the first is none, as in a table of headers. ()
    where the symbols cannot be found. `word`: the bytes of an address.
    """
    symbols, symbol = _symbols(tags, memory, word), _SYMBOL[word]
    kind, start, size = (SHT_RELA, _RELA, _RELASZ) if word == 8 else (SHT_REL, _REL, _RELSZ)
    wanted = (
        (".dynstr", _SHT_STRTAB, _STRTAB, tags.get(_STRSZ, 0)),
        (".dynsym", SHT_DYNSYM, _SYMTAB, symbols * symbol),
        (".gnu.version", SHT_GNU_VERSYM, _VERSYM, symbols * 2),
        (".gnu.version_d", SHT_GNU_VERDEF, _VERDEF, _MOST_VERSIONS),
        (".gnu.version_r", SHT_GNU_VERNEED, _VERNEED, _MOST_VERSIONS),
        (".rela.dyn", kind, start, tags.get(size, 0)),
        (".rela.plt", kind, _JMPREL, tags.get(_PLTRELSZ, 0) if tags.get(_PLTREL) == start else 0),
    )
    sections = [Section("", 0, 0, 0, 0, 0, 0, 0)]
    for name, kind, tag, size in wanted:
        address = tags.get(tag, 0)
        segment = segment_at(address) if tag in tags else None
        if segment is not None:
            size = min(size, segment.address + segment.file_size - address)
            entry = {SHT_DYNSYM: symbol, SHT_RELA: 24, SHT_REL: 8}.get(kind, 0)
            offset = address - segment.address + segment.offset
            sections.append(Section(name, kind, _ALLOC, address, offset, size, _STRINGS, entry))
        elif kind in (_SHT_STRTAB, SHT_DYNSYM):
            return ()
    return tuple(sections)


def _symbols(tags: Mapping[int, int], memory: Memory, word: int) -> int:
    """The number of symbols; 0 where that cannot be told."""
    try:
        if _HASH in tags:
            return int(struct.unpack("<II", memory(tags[_HASH], 8, "the hash table") or b"")[1])
        if _GNU_HASH not in tags:
            return 0
        # A file that defines none has no chain, and the strings mostly follow the symbols.
        between = (tags.get(_STRTAB, 0) - tags.get(_SYMTAB, 0)) // _SYMBOL[word]
        return _hashed(tags[_GNU_HASH], memory, word) or max(between, 0)
    except struct.error:
        return 0


def _hashed(address: int, memory: Memory, word: int) -> int:
    """The number after the last of the longest chain: the symbols of a bucket follow each other, and the last has its
    lowest bit set.
    """
    buckets, first, bloom, _ = struct.unpack("<IIII", memory(address, 16, "the hash table") or b"")
    table = address + 16 + word * bloom
    content = memory(table, 4 * buckets, "the hash table") or b""
    last = max((number for (number,) in struct.iter_unpack("<I", content[: len(content) // 4 * 4])), default=0)
    if last < first:
        return 0
    chains = memory(table + 4 * buckets + 4 * (last - first), _MOST_CHAINED, "the hash table") or b""
    ends = (number for number, byte in enumerate(chains[::4], 1) if byte & 1)
    return int(last) + next(ends, 0)
