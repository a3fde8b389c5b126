"""Operands that name a symbol → places in the file, as seen from one site.

A symbol in an argument string is what the compiler saw, before linking. So its place is found in the symbol table of
the linked file. That alone does not tell which variable is meant where the table has several of the name, static ones
of different source files, or where it has lost the names of static ones: then the one that it still has may be an
exported one of another source file. In these cases the variable is the one that the function around the site uses
otherwise, and unreadable where that does not tell.

Sources: gABI chapter 4 (relocations); psABI for x86-64 (R_X86_64_GLOB_DAT, _64, _RELATIVE) and for aarch64.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from functools import cached_property

from tracer.kinds.arch import ARCHES, X86_64
from tracer.kinds.site import Const, Global, GlobalPointer, Mem, Operand, Unreadable
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.relocations import Relocation, relocations
from tracer.resolve.elf.structures import ET_EXEC
from tracer.resolve.elf.symbol_table import STT_TLS, Variable
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.elf.variables import only_variable
from tracer.resolve.usdt.operands import Parsed, SymbolAddress, SymbolMemory


class SymbolOperands:
    """Looks up what the operands of one file's sites name."""

    def __init__(self, elf: Elf, symbols: Symbols, accessed: Callable[[int], Collection[int]]) -> None:
        """`accessed`: the addresses that the instructions of the function around a site read or write."""
        self._elf = elf
        self._symbols = symbols
        self._kinds = ARCHES.get(elf.machine, X86_64).relocations  # operands of aarch64 name no slots
        self._accessed = accessed
        self._variables: dict[str, tuple[Variable, ...]] = {}

    def resolve(self, operand: Parsed, site: int) -> Operand:
        """The operand as read at the site of that address."""
        if isinstance(operand, SymbolAddress):
            return self._address_constant(operand, site)
        if isinstance(operand, SymbolMemory):
            return self._memory(operand, site)
        return operand

    def _memory(self, operand: SymbolMemory, site: int) -> Operand:
        if operand.got:
            return self._got_slot(operand.symbol, site)
        address = self._address(operand.symbol, site)
        if isinstance(address, Unreadable):
            return address
        address += operand.addend
        if not operand.relative and self._elf.type != ET_EXEC:
            return Unreadable(f"{operand.symbol} is addressed as in a program that is always loaded at the same place")
        if operand.base is not None:
            # The file is loaded where it says, so the symbol is but a number.
            return Mem(operand.base, address, operand.index, operand.scale)
        return self._global(address, site, operand.index, operand.scale)

    def _global(self, address: int, site: int, index: str | None = None, scale: int = 1) -> Global:
        """The kernel computes `@+OFF` as the probe's address minus its file offset plus OFF, so OFF is the address
        less the probe's own segment's difference between address and offset, and not the variable's file offset.
        """
        segment = self._elf.segment_at(site)
        difference = segment.address - segment.offset if segment is not None else 0
        return Global(address, address - difference, address - site, index, scale)

    def _address_constant(self, operand: SymbolAddress, site: int) -> Operand:
        address = self._address(operand.symbol, site)
        if isinstance(address, Unreadable):
            return address
        if self._elf.type != ET_EXEC:
            return Unreadable(f"the address of {operand.symbol} is known only once the file is loaded")
        return Const(address + operand.addend)

    def _address(self, name: str, site: int) -> int | Unreadable:
        if name.startswith(".L"):
            return Unreadable(f"{name} is a label of the compiler, which is in no symbol table")
        variables = self._named(name)
        used: tuple[Variable, ...] = ()
        if variables and (len(variables) > 1 or self._symbols.lacks_locals):
            used = tuple(variable for variable in variables if self._uses(site, variable))
        variable = only_variable(self._symbols, name, used if len(used) == 1 else variables)
        if isinstance(variable, str):
            return Unreadable(variable)
        if self._symbols.lacks_locals and not used:
            what = "a static variable, whose name was stripped, and not the exported one"
            return Unreadable(f"{name} may be {what}: a debug file tells")
        return variable.address

    def _named(self, name: str) -> tuple[Variable, ...]:
        if name not in self._variables:
            self._variables[name] = self._symbols.variables(name)
        return self._variables[name]

    def _uses(self, site: int, variable: Variable) -> bool:
        """Whether an instruction of the function around the site reads or writes the variable."""
        variable_range = range(variable.address, variable.address + max(variable.size, 1))
        return variable.type != STT_TLS and any(address in variable_range for address in self._accessed(site))

    def _got_slot(self, name: str, site: int) -> Operand:
        """The pointer in the slot of a name: only what other files can see is reached through one."""
        variables = [] if name in self._named_slots else self._named(name)
        slots = {slot for variable in variables if (slot := self._relative_slots.get(variable.address)) is not None}
        if name in self._named_slots:
            slots = {self._named_slots[name]}
        if len(slots) != 1:
            return Unreadable(f"no entry of the global offset table belongs to {name}")
        return GlobalPointer(self._global(slots.pop(), site))

    @cached_property
    def _relocations(self) -> list[Relocation]:
        return list(relocations(self._elf))

    @cached_property
    def _named_slots(self) -> dict[str, int]:
        """Slots that the loader fills with a symbol's address, by the symbol's name."""
        exported = self._symbols.exported
        if exported is None:
            return {}
        return {
            exported.name(relocation.symbol): relocation.address
            for relocation in self._relocations
            if relocation.kind == self._kinds.glob_dat and relocation.addend == 0
        }

    @cached_property
    def _relative_slots(self) -> dict[int, int]:
        """Slots in .got that hold the address of something in this file, by that address."""
        got = [section for section in self._elf.sections if section.name in (".got", ".got.plt")][:2]
        slots = {
            relocation.addend: relocation.address
            for relocation in self._relocations
            if relocation.kind == self._kinds.relative
            and any(section.address <= relocation.address < section.address + section.size for section in got)
        }
        if self._elf.type == ET_EXEC:  # filled by the linker, no relocation left
            for section in got:
                content = self._elf.content(section)
                word = self._elf.word
                layout = "<Q" if word == 8 else "<I"
                for index, (value,) in enumerate(struct.iter_unpack(layout, content[: len(content) // word * word])):
                    if value:
                        slots.setdefault(value, section.address + word * index)
        return slots

