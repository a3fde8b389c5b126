"""Mapped files with their symbols, open as long as their names may be asked for."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from tracer.errors import TracerError
from tracer.host.maps import Mapping, mappings, path_of, root
from tracer.host.memory import open_memory, read
from tracer.host.stat import directory
from tracer.opening import opened
from tracer.resolve.elf.debug_file import find_debug_file
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.elf.symbols import Symbols

if TYPE_CHECKING:
    from tracer.resolve.dwarf.inline_frames import InlineFrames, Source
    from tracer.resolve.unwind.rules import Rule
    from tracer.resolve.unwind.unwind_tables import Tables

_MOST_FILES = 256
_MOST_RULES = 1 << 16
_MOST_CLOSED = 1 << 16
_MOST_SOURCES = 1 << 15

File = tuple[str, int]
"""Device and inode, as /proc/PID/maps has them."""


class Module:
    """An open file, or the kernel's [vdso], with its symbols read when first asked for."""

    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self.version = elf.version
        self.symbols = Symbols(elf, find_debug_file)
        self._rules: dict[int, Rule | None] = {}
        self._sources: dict[int, tuple[Source, ...]] = {}

    def name(self, file_offset: int) -> tuple[Function, int] | None:
        """The function at a file offset and the distance from its start."""
        address = self.elf.address_of(file_offset)
        try:
            function = self.symbols.function_at(address) if address is not None else None
        except TracerError:
            return None
        return None if function is None or address is None else (function, address - function.address)

    def rule(self, file_offset: int) -> Rule | None:
        """The rule for the caller's registers at a file offset; None where no table has one."""
        if file_offset not in self._rules:
            if len(self._rules) >= _MOST_RULES:
                self._rules.clear()
            address = self.elf.address_of(file_offset)
            try:
                self._rules[file_offset] = None if address is None else self.tables.rule(address)
            except TracerError:
                self._rules[file_offset] = None
        return self._rules[file_offset]

    def returns(self, file_offset: int) -> bool:
        """Whether the instruction there is x86-64's `ret`."""
        address = self.elf.address_of(file_offset)
        try:
            code = b"" if address is None else self.elf.memory(address, 2, "an instruction") or b""
        except TracerError:
            return False
        return code[:1] in (b"\xc3", b"\xc2") or code in (b"\xf3\xc3", b"\xf2\xc3")

    def begins(self, file_offset: int) -> bool:
        """Whether a function begins there, by the unwind tables."""
        address = self.elf.address_of(file_offset)
        try:
            frame = None if address is None else self.tables.frame(address)
        except TracerError:
            return False
        return frame is not None and frame.start == address

    def sources(self, file_offset: int) -> tuple[Source, ...]:
        """The functions that were inlined at a file offset, innermost first, and the one that was compiled, each with
        its line of source; none where no debug information says it.
        """
        sources = self._sources.get(file_offset)
        if sources is None:
            if len(self._sources) >= _MOST_SOURCES:
                self._sources.clear()
            from tracer.resolve.dwarf.units.debug_entries import NONSENSE

            address = self.elf.address_of(file_offset)
            try:
                sources = () if address is None or self._inlined is None else self._inlined.sources_at(address)
            except (TracerError, *NONSENSE):
                sources = ()  # it is damaged, or gone
            self._sources[file_offset] = sources
        return sources

    @cached_property
    def _inlined(self) -> InlineFrames | None:
        from tracer.resolve.dwarf.inline_frames import InlineFrames
        from tracer.resolve.dwarf.units.debug_entries import entries_of

        entries = entries_of(self.elf, keep=True)
        return None if entries is None else InlineFrames(entries)

    @cached_property
    def tables(self) -> Tables:
        """The unwind tables."""
        from tracer.resolve.unwind.unwind_tables import Tables

        return Tables(self.elf, find_debug_file)


class Modules:
    """The files of any number of mappings. Where there are very many, the ones used last stay open, at the end of the
    dict. A closed file is opened again if it is the same.
    """

    def __init__(self) -> None:
        self._open: dict[File, Module | None] = {}
        self._closed: dict[File, object] = {}
        self._vdso: dict[bool, Module | None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, file: File) -> bool:
        return file in self._open

    def close(self) -> None:
        """Closes the files."""
        for module in self._open.values():
            if module is not None:
                module.elf.close()

    def of(self, pid: int, mapping: Mapping) -> Module | None:
        """The file of a process's mapping; None where it cannot be had."""
        assert mapping.file is not None
        if mapping.file in self._open:
            module = self._open.pop(mapping.file)
        else:
            module = _open_mapped(pid, mapping)
            before = self._closed.pop(mapping.file, None)
            if module is not None and before is not None and module.version != before:
                module.elf.close()
                module = None
            if len(self._open) >= _MOST_FILES:
                self._put_away(next(iter(self._open)))
        self._open[mapping.file] = module
        return module

    def _put_away(self, file: File) -> None:
        module = self._open.pop(file)
        if module is not None:
            module.elf.close()
            self._closed[file] = module.version
            if len(self._closed) > _MOST_CLOSED:
                del self._closed[next(iter(self._closed))]

    def vdso(self, pid: int, mapping: Mapping) -> Module | None:
        """The image that the kernel maps into every process (the vDSO), read from tracer's own memory. That of a 32-bit
        process is another, which is read from the first that is asked for.
        """
        narrow = mapping.end <= 1 << 32
        if self._vdso.get(narrow) is None:
            own_images = (mapping for mapping in mappings(os.getpid()) if mapping.path == "[vdso]")
            self._vdso[narrow] = _image(pid, mapping) if narrow else _image(os.getpid(), next(own_images, None))
        return self._vdso[narrow]


def _image(pid: int, mapping: Mapping | None) -> Module | None:
    if mapping is None:
        return None
    try:
        memory = open_memory(pid)
    except OSError:
        return None
    try:
        return Module(Elf("[vdso]", read(memory, mapping.end - mapping.start, mapping.start)))
    except (OSError, TracerError):
        return None
    finally:
        os.close(memory)


def _open_mapped(pid: int, mapping: Mapping) -> Module | None:
    """The mapped file itself, even where it was deleted; else (not root, or it has gone) the file at its path, if it is
    the same.
    """
    assert mapping.file is not None
    try:
        descriptor = opened(f"{directory(pid)}/map_files/{mapping.key}")
        # After an exec another file lies there, after the next this again. So what was opened is asked for its path.
        real = os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")
        elf = Elf(mapping.path, descriptor=descriptor)
        # Inodes of an overlay differ from those in maps; then paths must do.
        if elf.inode == mapping.file[1] or real == mapping.path:
            return Module(elf)
        elf.close()
    except (OSError, TracerError):
        pass
    try:
        prefix = root(pid)
    except TracerError:
        prefix = ""  # it has ended
    path = path_of(pid, mapping, prefix)
    try:
        return Module(Elf(path)) if path is not None else None
    except TracerError:
        return None
