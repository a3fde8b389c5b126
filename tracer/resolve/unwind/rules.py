"""Finds the caller's registers at one address of a function: the call frame instructions are run up to it.

The *canonical frame address* (CFA) is the stack pointer before the call; the caller's registers are saved at distances
from it. Registers have DWARF's numbers. Source: DWARF 5, 6.4.2 and 6.4.3; System V ABI, AMD64 supplement, 3.6.2, and
AADWARF64, 4.1, for the registers' numbers.
"""

from __future__ import annotations

import struct

from tracer.dataclass import dataclass
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.unwind_entries import DAMAGE, Common

_MAX_REMEMBERED = 64
_MAX_REGISTERS = 64
"""Registers of one row at most. Processors have fewer but for vectors, whose rules are of no use here."""

OFFSET, VALUE, REGISTER, EXPRESSION, VALUE_EXPRESSION, UNDEFINED = range(6)
"""The kinds of rules, by where a register's value is: at CFA + n; CFA + n itself; in another register; at what an
expression says; what that says itself; nowhere. A register without a rule keeps its value.
"""

Saved = tuple[int, int | bytes]
"""The rule of one register: one of the kinds above with its number or expression."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: the CFA is `register` + `offset`, or what `expression` gives; `saved` by register. `signal`: what is
    found is an address where a thread was stopped, not one that a call returns to.
    """

    register: int
    offset: int
    expression: bytes | None
    saved: dict[int, Saved]
    return_register: int
    signal: bool

    @property
    def is_last(self) -> bool:
        """Whether the function has no caller, as the first of a program or a thread says."""
        saved = self.saved.get(self.return_register)
        return saved is not None and saved[0] == UNDEFINED


class Unsupported(Exception):
    """An instruction is not understood, so the others prove nothing."""


def rule_at(common: Common, program: bytes, start: int, address: int) -> Rule | None:
    """The row of `address`, in a function that begins at `start`; None where the instructions are damaged, or of an
    unknown kind.
    """
    run = _Run(common, start, address)
    try:
        if run.run(common.program, initial=True):
            run.first = dict(run.saved)
            run.run(program, initial=False)
        return run.rule()
    except (Unsupported, *DAMAGE):
        return None


class _Run:
    """The registers of the machine that DWARF imagines for call frame instructions."""

    def __init__(self, common: Common, start: int, address: int) -> None:
        self.common = common
        self.location = start
        self.address = address
        self.register = -1
        self.offset = 0
        self.expression: bytes | None = None
        self.saved: dict[int, Saved] = {}
        self.first: dict[int, Saved] = {}
        self.remembered: list[tuple[int, int, bytes | None, dict[int, Saved]]] = []

    def rule(self) -> Rule | None:
        if self.register < 0 and self.expression is None:
            return None
        common = self.common
        return Rule(self.register, self.offset, self.expression, self.saved, common.return_register, common.signal)

    def run(self, program: bytes, initial: bool) -> bool:
        """Runs a program; returns False once the row of the address is reached, for what follows is of later ones."""
        data_factor = self.common.data_factor
        position, end = 0, len(program)
        while position < end:
            byte = program[position]
            position += 1
            kind, low = byte & 0xC0, byte & 0x3F
            if kind == 0x40:  # DW_CFA_advance_loc
                if not self._advance(low):
                    return False
            elif kind == 0x80:  # DW_CFA_offset
                number, position = leb(program, position)
                self._save(low, (OFFSET, number * data_factor))
            elif kind == 0xC0:  # DW_CFA_restore
                self._restore(low)
            elif low in _ADVANCES:
                layout = _ADVANCES[low]
                if not self._advance(struct.unpack_from(layout, program, position)[0]):
                    return False
                position += struct.calcsize(layout)
            elif low == 0x0A:  # DW_CFA_remember_state
                if len(self.remembered) >= _MAX_REMEMBERED:
                    raise Unsupported
                self.remembered.append((self.register, self.offset, self.expression, dict(self.saved)))
            elif low == 0x0B:  # DW_CFA_restore_state
                if not self.remembered:
                    raise Unsupported
                self.register, self.offset, self.expression, self.saved = self.remembered.pop()
            elif low:  # 0 is DW_CFA_nop
                position = self._operation(low, program, position, initial)
        return True

    def _advance(self, by: int) -> bool:
        self.location += by * self.common.code_factor
        return self.location <= self.address

    def _save(self, register: int, how: Saved | None) -> None:
        if how is None:
            self.saved.pop(register, None)
            return
        if len(self.saved) >= _MAX_REGISTERS and register not in self.saved:
            raise Unsupported
        self.saved[register] = how

    def _restore(self, register: int) -> None:
        self._save(register, self.first.get(register))

    def _operation(self, code: int, program: bytes, position: int, initial: bool) -> int:
        """Executes the other instructions; returns the place of the next one."""
        factor = self.common.data_factor
        if code == 0x0F:  # DW_CFA_def_cfa_expression
            self.expression, position = _block(program, position)
            return position
        if code == 0x0E or code == 0x13:  # DW_CFA_def_cfa_offset, _sf
            number, position = leb(program, position, signed=code == 0x13)
            self.offset, self.expression = number * (factor if code == 0x13 else 1), None
            return position
        if code == 0x2E:  # DW_CFA_GNU_args_size
            return leb(program, position)[1]
        if code == 0x2D:  # DW_CFA_AARCH64_negate_ra_state: addresses are signed from here on, see `walker`
            return position
        register, position = leb(program, position)
        if code in (0x0C, 0x12):  # DW_CFA_def_cfa, _sf
            number, position = leb(program, position, signed=code == 0x12)
            self.register, self.offset, self.expression = register, number * (factor if code == 0x12 else 1), None
        elif code == 0x0D:  # DW_CFA_def_cfa_register
            self.register, self.expression = register, None
        elif code in (0x05, 0x11, 0x2F, 0x14, 0x15):  # DW_CFA_offset_extended, _sf, GNU_negative; val_offset, _sf
            number, position = leb(program, position, signed=code in (0x11, 0x15))
            sign = -1 if code == 0x2F else 1
            self._save(register, (VALUE if code in (0x14, 0x15) else OFFSET, sign * number * factor))
        elif code == 0x06:  # DW_CFA_restore_extended
            if initial:
                raise Unsupported
            self._restore(register)
        elif code == 0x07:  # DW_CFA_undefined
            self._save(register, (UNDEFINED, 0))
        elif code == 0x08:  # DW_CFA_same_value
            self._save(register, None)
        elif code == 0x09:  # DW_CFA_register
            other, position = leb(program, position)
            self._save(register, (REGISTER, other))
        elif code in (0x10, 0x16):  # DW_CFA_expression, DW_CFA_val_expression
            block, position = _block(program, position)
            self._save(register, (EXPRESSION if code == 0x10 else VALUE_EXPRESSION, block))
        else:
            raise Unsupported
        return position



_ADVANCES = {0x02: "<B", 0x03: "<H", 0x04: "<I"}
"""The layouts of the distances of DW_CFA_advance_loc1, 2 and 4."""


def _block(program: bytes, position: int) -> tuple[bytes, int]:
    size, position = leb(program, position)
    if position + size > len(program):
        raise IndexError("an expression that is cut off")
    return program[position : position + size], position + size
