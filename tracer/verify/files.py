"""Opens a file with both readers."""

from __future__ import annotations

import os
from functools import cached_property
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any

from elftools.common.exceptions import ELFError
from elftools.dwarf.callframe import CallFrameInfo
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile

from tracer.opening import opened
from tracer.resolve.dwarf.units.debug_entries import entries_of
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.elf.file import Elf

if TYPE_CHECKING:
    from tracer.verify.findings import Findings


class Both:
    """A file as `Elf` and as pyelftools' `ELFFile`, until it is closed. What debug information is about may stand in a
    debug file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._streams: list[IO[bytes]] = []
        self.elf = Elf(path)
        self.other = self._elftools(path)

    def close(self) -> None:
        """Closes the files."""
        self.elf.close()
        for stream in self._streams:
            stream.close()

    def _elftools(self, path: str) -> Any:
        self._streams.append(os.fdopen(opened(path), "rb"))
        return ELFFile(self._streams[-1])

    @cached_property
    def entries(self) -> Entries | None:
        """The debug information, as ours finds and reads it; None where there is none."""
        return entries_of(Elf(self.path))

    @cached_property
    def dwarf(self) -> Any:
        """The debug information of the same file as pyelftools reads it, with dwz's file where ours has found it."""
        assert self.entries is not None
        names = [section.name.partition("debug_") for section in self.entries.elf.sections]
        if {".", ".z"} <= {prefix for prefix, separator, _ in names if separator}:
            raise ELFError("sections of .debug_ beside .zdebug_")
        dwarf = self._elftools(self.entries.elf.path).get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        if self.entries.other is not None:
            beside = self._elftools(self.entries.other.elf.path)
            dwarf.supplementary_dwarfinfo = beside.get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        return dwarf

    def unwind_table(self, name: str) -> Any:
        """The file's own `.eh_frame` or `.debug_frame` as pyelftools reads it; None where it has none."""
        section = self.other.get_section_by_name(name)
        if section is None or section["sh_type"] == "SHT_NOBITS":
            return None
        data = section.data()
        structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8)
        return CallFrameInfo(BytesIO(data), len(data), section["sh_addr"], structs, for_eh_frame=name == ".eh_frame")


def debug_information(both: Both, findings: Findings) -> tuple[Entries, Any] | None:
    """The debug information as ours and pyelftools read it; None where one has none, which is noted."""
    entries = findings.ours(lambda: both.entries)
    if isinstance(entries, str):
        findings.same("debug information", entries, "read", counts=False)
    dwarf = findings.theirs(lambda: both.dwarf) if isinstance(entries, Entries) else None
    return None if dwarf is None or not isinstance(entries, Entries) else (entries, dwarf)
