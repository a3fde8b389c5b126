"""`Binary` reads an executable or library: each part when it is first asked for."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import TracerError, printable
from tracer.kinds.arch import ARCHES, GO_STACK_ARGS, Arch, machine_name
from tracer.kinds.site import ArgSpec, FileIdentity, Unreadable
from tracer.resolve.elf.file import Elf

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracer.resolve.dwarf.lines.programs import LinePrograms
    from tracer.resolve.elf.symbols import Symbols
    from tracer.resolve.safety.code import Code
    from tracer.resolve.safety.stack_check import StackChecks
    from tracer.resolve.safety.unwind import Unwinding
    from tracer.resolve.usdt.notes import UsdtNote
    from tracer.resolve.usdt.operands import NoteArgument
    from tracer.resolve.usdt.symbol_operands import SymbolOperands


class Binary:
    """An executable or library. `path` is the absolute path by which it is opened, `named` its name in the user's text,
    `shown` that name made printable.
    """

    reproducible = True
    """Whether what was found of it follows from this file and its debug files alone."""

    shows_functions = True
    """Whether the program asks for functions' names. To demangle those of C++ takes as long as all the rest."""

    unsafe_returns = False
    """Whether the user accepts return probes that an exception may meet."""

    inlined = False
    """Whether the program asks for inlined copies of functions."""

    walked = False
    """Whether the program asks for stacks. A return probe would put an address of the kernel's on them."""

    switching: str | None = None
    """Why its stacks may be switched, though the file does not say so."""

    def __init__(self, path: str, shown: str | None = None) -> None:
        self.path = path
        self.named = shown or path
        self.shown = printable(self.named)
        self.elf = Elf(path, label=self.shown)

    @property
    def identity(self) -> FileIdentity:
        """The identity of the file."""
        return self.elf.identity

    @property
    def arch(self) -> Arch:
        """The architecture of the file. Raises `ElfError` for one that is not in the tables."""
        arch = ARCHES.get(self.elf.machine)
        if arch is None:
            supported = "only x86-64, i386 and aarch64 are supported"
            raise self.elf.error(f"made for {machine_name(self.elf.machine)}: {supported}")
        return arch

    @cached_property
    def debug_files(self) -> set[str]:
        """The places where a separate debug file was looked for."""
        return set()

    @cached_property
    def symbols(self) -> Symbols:
        """The symbols of the file."""
        from tracer.resolve.elf.symbols import Symbols

        return Symbols(self.elf, self.debug_file)

    @cached_property
    def lines(self) -> LinePrograms | None:
        """The line programs of the file, or those of its separate debug file."""
        from tracer.resolve.dwarf.lines.programs import LinePrograms

        file_programs = LinePrograms(self.elf)
        if file_programs.present:
            return file_programs
        debug = self.debug_file(self.elf)
        programs = None if debug is None else LinePrograms(debug)
        return programs if programs is not None and programs.present else None

    @cached_property
    def code(self) -> Code:
        """The functions and instructions of the file."""
        from tracer.resolve.safety.code import Code

        return Code(self.elf, self.symbols)

    @cached_property
    def unwinding(self) -> Unwinding:
        """The things that may unwind through the file's functions."""
        from tracer.resolve.safety.unwind import Unwinding

        return Unwinding(self.code, lambda: self.switching)

    @cached_property
    def stack_checks(self) -> StackChecks:
        """The beginnings of functions behind the check of their stack, if the file is Go's."""
        from tracer.resolve.safety.stack_check import StackChecks

        return StackChecks(self.code)

    @cached_property
    def usdt(self) -> tuple[UsdtNote, ...]:
        """The USDT sites of the file, those too whose code was dropped. Raises `ElfError` where all its notes are
        damaged.
        """
        from tracer.resolve.usdt.notes import read_notes

        notes = read_notes(self.elf, self.damaged_notes)
        if self.damaged_notes and not notes:
            raise self.elf.error(self.damaged_notes[0])
        return notes

    @property
    def no_usdt(self) -> str:
        """Says why the file has no USDT sites, where it has none."""
        if self.elf.has_section_headers:
            return "the file has no USDT probes"
        return "the file has no section headers, without which USDT probes cannot be found"

    def was_dropped(self, note: UsdtNote) -> bool:
        """Whether a note is of code that the linker did not take into the file (--gc-sections)."""
        if not self._in_code(note):
            return True
        if not self._keeps_notes:
            return False
        from tracer.resolve.safety.placement import holds_other_code

        return holds_other_code(self.code, note.address)

    def _in_code(self, note: UsdtNote) -> bool:
        return note.address != 0 and any(note.address in code_range for code_range in self._code_ranges)

    @cached_property
    def _code_ranges(self) -> list[range]:
        from tracer.resolve.usdt.notes import code_ranges

        return code_ranges(self.elf)

    @cached_property
    def _keeps_notes(self) -> bool:
        from tracer.resolve.usdt.notes import linker_keeps_notes

        return linker_keeps_notes(self.elf) or not all(map(self._in_code, self.usdt))

    @cached_property
    def damaged_notes(self) -> list[str]:
        """The faults of notes that could not be read, once `usdt` was asked for."""
        return []

    @cached_property
    def _places(self) -> SymbolOperands:
        from tracer.resolve.usdt.symbol_operands import SymbolOperands

        return SymbolOperands(self.elf, self.symbols, lambda site: self.code.accessed(site))

    def parsed_arguments(self, note: UsdtNote) -> tuple[NoteArgument, ...]:
        """The arguments of a USDT site as its note states them, before symbols are looked up."""
        from tracer.resolve.usdt.operands import parse

        return parse(note.arguments, self.arch)

    def arguments(self, note: UsdtNote) -> tuple[ArgSpec, ...]:
        """The arguments of a USDT site and where to read them."""
        args = [
            argument.spec(self._places.resolve(argument.operand, note.address))
            for argument in self.parsed_arguments(note)
        ]
        return tuple(args if self.elf.word == 8 else [replace(arg, word=self.elf.word) for arg in args])

    @cached_property
    def _go_registers(self) -> bool:
        """Whether Go functions take their arguments in registers: from Go 1.17 on, and 1.18 is what the file shows, by
        keeping its version inline in the build information (flag 2).
        """
        section = self.elf.section(".go.buildinfo")
        content = self.elf.content(section) if section is not None else b""
        return content.startswith(b"\xff Go buildinf:") and len(content) > 15 and bool(content[15] & 2)

    @cached_property
    def _go(self) -> bool:
        return self.unwinding.go

    @property
    def keeps_goroutine(self) -> bool:
        """Whether a register of functions of Go holds what describes their goroutine."""
        return self._go and self._go_registers

    @cached_property
    def _plain_args(self) -> tuple[ArgSpec, ...]:
        return self.arch.function_args()

    def function_args(self, name: str) -> tuple[ArgSpec, ...]:
        """arg0, arg1, … at the first instruction of a function."""
        if not self._go or "." not in name or not self.arch.go_args:  # functions of C in a Go file have plain names
            return self._plain_args
        if self._go_registers:
            return GO_STACK_ARGS if name.endswith(".abi0") else self.arch.function_args(go=True)
        unknown = Unreadable("Go before 1.18 passes arguments in its own way")
        return tuple(replace(arg, operand=unknown) for arg in self.arch.function_args())

    def readable(self, name: str) -> str:
        """A symbol's name as people write it: demangled for C++ and Rust, where this machine has a demangler."""
        if name[:2] not in ("_Z", "_R"):
            return name
        plain, separator, version = name.partition("@")
        readable = self._demangle(plain)
        return name if readable is None else readable + separator + version

    def function_text(self, name: str) -> str:
        """A function's name for `func`, where the program asks for it."""
        return self.readable(name) if self.shows_functions else name

    @cached_property
    def _demangle(self) -> Callable[[str], str | None]:
        from tracer.resolve.symbols.demangle import demangler

        try:
            return demangler()
        except TracerError:
            self.reproducible = False
            return lambda name: None

    def debug_file(self, elf: Elf) -> Elf | None:
        """The separate debug file, if there is one."""
        from tracer.resolve.elf.debug_file import debug_paths, find_debug_file, may_be_served

        self.debug_files.update(debug_paths(elf))
        debug_elf = find_debug_file(elf)
        if debug_elf is None and may_be_served(elf):
            self.reproducible = False
        return debug_elf


class Binaries:
    """Opens each file once, however many paths lead to it."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], Binary] = {}

    def open(self, path: str, shown: str | None = None) -> Binary:
        """The file at `path`, under the name by which it was first asked for. Raises `ElfError`."""
        try:
            status = os.stat(path)
            opened_before = self._open.get((status.st_dev, status.st_ino))
        except (OSError, ValueError):
            opened_before = None  # opening it says why
        if opened_before is not None:
            return opened_before
        binary = Binary(path, shown)
        self._open[(binary.identity.device, binary.identity.inode)] = binary
        return binary

    def close(self) -> None:
        """Closes them all."""
        for binary in self._open.values():
            binary.elf.close()
