"""Sections, segments, notes and symbols, as both read them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from elftools.elf import enums

from tracer.errors import printable
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.structures import SHT_DYNSYM, SHT_SYMTAB, Section, notes
from tracer.resolve.elf.symbol_table import STT_FUNC, STT_GNU_IFUNC, Table, read_table
from tracer.resolve.usdt.notes import read_notes
from tracer.verify.files import Both
from tracer.verify.findings import Findings

_NOTE, _VERDEF, _VERNEED, _VERSYM = 7, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_VARIABLES = 20
"""Variables of a table that are looked up by their names, which takes us a walk over the table for each."""


_Note = tuple[str, int | str, bytes]


def _numbers(prefix: str) -> dict[str, int]:
    """The number behind each word by which pyelftools calls a type."""
    tables = [table for name, table in vars(enums).items() if name.startswith(prefix)]
    return {word: number for table in tables for word, number in table.items() if isinstance(number, int)}


_SECTION_TYPES, _SEGMENT_TYPES = _numbers("ENUM_SH_TYPE"), _numbers("ENUM_P_TYPE")
_SYMBOL_TYPES, _BINDINGS = _numbers("ENUM_ST_INFO_TYPE"), _numbers("ENUM_ST_INFO_BIND")
_NOTE_TYPES = _numbers("ENUM_NOTE_N_TYPE")
_NOTE_TYPES |= {"NT_GNU_ABI_TAG": 1, "NT_GNU_HWCAP": 2, "NT_GNU_BUILD_ID": 3, "NT_GNU_GOLD_VERSION": 4,
                "NT_GNU_PROPERTY_TYPE_0": 5}  # fmt: skip


def _number(value: int | str, words: dict[str, int]) -> int | str:
    return words.get(value, value) if isinstance(value, str) else value


def _unclear(name: object) -> str:
    return "not UTF-8" if isinstance(name, str) and "\ufffd" in name else ""


def sections(both: Both, findings: Findings) -> None:
    """Compares the section headers."""
    elf, other = both.elf, both.other
    if not elf.has_section_headers:
        findings.count_reason("headers cut off" if other["e_shoff"] else "no section headers")
        return
    count = findings.theirs(other.num_sections)
    ours = findings.ours(lambda: elf.sections)
    if count is None or isinstance(ours, str):
        findings.same("the section headers", ours, count, counts=False)
        return
    findings.same("the number of sections", len(ours), count, counts=False)
    for index, section in enumerate(ours[:count]):
        header = findings.theirs(other._get_section_header, index)
        if header is None:
            continue
        name = findings.theirs(other._get_section_name, header)
        numbers = [header[f"sh_{field}"] for field in ("flags", "addr", "offset", "size", "link", "entsize")]
        theirs = name, _number(header["sh_type"], _SECTION_TYPES), *numbers
        mine = (
            section.name, section.type, section.flags, section.address, section.offset, section.size, section.link,
            section.entry_size,
        )  # fmt: skip
        findings.same(f"section {index}", mine, theirs, _unclear(name))


def segments(both: Both, findings: Findings) -> None:
    """Compares the program headers."""
    count = findings.theirs(both.other.num_segments)
    ours = findings.ours(lambda: both.elf.segments)
    if count is None or isinstance(ours, str):
        findings.same("the program headers", ours, count, counts=False)
        return
    findings.same("the number of segments", len(ours), count, counts=False)
    for index, segment in enumerate(ours[:count]):
        header = findings.theirs(both.other._get_segment_header, index)
        if header is not None:
            kind = _number(header["p_type"], _SEGMENT_TYPES)
            theirs = kind, header["p_flags"], header["p_offset"], header["p_vaddr"], header["p_filesz"]
            mine = segment.type, segment.flags, segment.offset, segment.address, segment.file_size
            findings.same(f"segment {index}", mine, theirs)


def usdt(both: Both, findings: Findings) -> None:
    """Compares all notes of all sections, and the sites of USDT probes among them."""
    elf, other = both.elf, both.other
    theirs: dict[tuple[object, ...], None] = {}
    base = elf.section(".stapsdt.base")
    for index, section in enumerate(elf.sections if elf.has_section_headers else ()):
        if section.type != _NOTE:
            continue
        rows = findings.theirs(_their_notes, other, index)
        if rows is None:
            continue
        ours = findings.ours(_notes, elf, section)
        for place, row in enumerate(() if isinstance(ours, str) else rows):
            mine = ours[place] if place < len(ours) else None
            reason = "zero in a name" if mine is not None and "\0" in mine[0] else ""
            findings.same(f"note {place} of {section.name}", mine, row, reason)
        mine_many = ours if isinstance(ours, str) else len(ours)
        findings.same(f"the number of notes of {section.name}", mine_many, len(rows), counts=False)
        if section.name == ".note.stapsdt":
            theirs.update(dict.fromkeys(_sites(rows, None if base is None else base.address)))
    sites = findings.ours(lambda: read_notes(elf, []))
    if isinstance(sites, str):
        findings.same("the USDT probes", sites, tuple(theirs), counts=False)
        return
    findings.same("the number of USDT probes", len(sites), len(theirs), counts=False)
    for site, other_site in zip(sites, theirs, strict=False):
        note_fields = (site.provider, site.name, site.address, site.semaphore, site.arguments)
        findings.same(f"USDT probe {site.provider}:{site.name}", note_fields, other_site)


def _notes(elf: Elf, section: Section) -> list[_Note]:
    read = notes(elf.content(section))
    return [(note.name.decode("utf-8", "backslashreplace"), note.type, note.description) for note in read]


def _their_notes(other: Any, index: int) -> list[_Note]:
    read = other.get_section(index).iter_notes()
    return [(note["n_name"] or "", _number(note["n_type"], _NOTE_TYPES), note["n_descdata"]) for note in read]


def _sites(rows: list[_Note], base: int | None) -> Iterator[tuple[object, ...]]:
    for name, kind, description in rows:
        if name == "stapsdt" and kind == 3 and len(description) >= 24:
            address, noted, semaphore = struct.unpack_from("<QQQ", description)
            moved = base - noted if base is not None and noted else 0
            texts = [printable(text.decode("utf-8", "backslashreplace")) for text in description[24:].split(b"\0")]
            places = [value + moved & (1 << 64) - 1 if value else 0 for value in (address, semaphore)]
            yield texts[0], texts[1], places[0], places[1], texts[2]


def symbols(both: Both, findings: Findings) -> None:
    """Compares the functions of both symbol tables, with their versions, and some of the variables."""
    elf = both.elf
    for kind in (SHT_DYNSYM, SHT_SYMTAB):
        index = next((i for i, section in enumerate(elf.sections) if section.type == kind), None)
        if index is None or not elf.has_section_headers:
            continue
        table = findings.ours(read_table, elf, kind)
        rows = findings.theirs(both.other.get_section, index)
        if rows is None:
            continue
        if not isinstance(table, Table):
            findings.same(f"the symbols of {elf.sections[index].name}", table, "symbols")
            continue
        _table(both, findings, elf.sections[index], table, rows, kind == SHT_DYNSYM)


def _table(both: Both, findings: Findings, section: Section, table: Table, rows: Any, dynamic: bool) -> None:
    versions = _versions(both, findings) if dynamic else None
    ours = findings.ours(lambda: iter(table.functions))
    if isinstance(ours, str):
        findings.same(f"the functions of {section.name}", ours, "functions", counts=False)
        return
    variables: list[tuple[str, int, int, int]] = []
    for index in range(rows.num_symbols()):
        symbol = findings.theirs(rows.get_symbol, index)
        if symbol is None:
            continue
        kind, where = _number(symbol["st_info"]["type"], _SYMBOL_TYPES), symbol["st_shndx"]
        if where == "SHN_UNDEF" or not symbol.name:
            continue
        if kind not in (STT_FUNC, STT_GNU_IFUNC):
            if kind not in (3, 4):
                variables.append((symbol.name, symbol["st_value"], int(kind), symbol["st_size"]))
            continue
        if not symbol["st_value"]:
            continue
        name, separator, version = printable(symbol.name).partition("@")
        default, wanted = not separator or version.startswith("@"), version.lstrip("@")
        if not name:
            name, default, wanted = printable(symbol.name), True, ""
        if versions is not None and not separator:
            default, wanted = versions.get(index, (True, ""))
        theirs = (
            name, symbol["st_value"], symbol["st_size"], _number(symbol["st_info"]["bind"], _BINDINGS),
            kind == STT_GNU_IFUNC, default, wanted,
        )  # fmt: skip
        mine = next(ours, None)
        findings.same(f"symbol {index} of {section.name}", mine and tuple(mine), theirs, _unclear(symbol.name))
    findings.same(f"a function behind the last of {section.name}", next(ours, None), None, counts=False)
    for name, address, kind, size in variables[:: len(variables) // _VARIABLES + 1]:
        if _unclear(name) or "@" in name:
            continue
        same_name = {(variable.address, variable.type, variable.size) for variable in table.variables(name)}
        findings.same(f"variable {name} of {section.name}", (address, kind, size) in same_name, True)


def _versions(both: Both, findings: Findings) -> dict[int, tuple[bool, str]]:
    """The version of each dynamic symbol, behind whether it is the default of its name."""
    by_type = {section.type: index for index, section in enumerate(both.elf.sections)}
    if _VERSYM not in by_type:
        return {}

    def names() -> dict[int, str]:
        names_by_number: dict[int, str] = {}
        if _VERDEF in by_type:
            for version, others in both.other.get_section(by_type[_VERDEF]).iter_versions():
                if not version["vd_flags"] & 1:
                    names_by_number[version["vd_ndx"]] = next(others).name
        if _VERNEED in by_type:
            for _, others in both.other.get_section(by_type[_VERNEED]).iter_versions():
                names_by_number |= {version["vna_other"] & 0x7FFF: version.name for version in others}
        return names_by_number

    version_names = findings.theirs(names)
    words = {"VER_NDX_LOCAL": 0, "VER_NDX_GLOBAL": 1}
    rows = findings.theirs(lambda: list(both.other.get_section(by_type[_VERSYM]).iter_symbols()))
    result = {}
    for index, row in enumerate(rows or ()):
        number = row["ndx"]
        number = words.get(number, 0) if isinstance(number, str) else number
        result[index] = (not number & 0x8000, (version_names or {}).get(number & 0x7FFF, ""))
    return result
