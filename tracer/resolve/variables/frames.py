"""The frame of a function at a place of its code: where its base is there, and whether what it holds is there yet.

Debug information gives a variable of the frame one place for the whole function, also where the function has not made
room or has not stored a parameter yet. What is told there is what the stack held before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from tracer.errors import TracerError
from tracer.kinds.arch import EM_386, EM_X86
from tracer.lang.types.outside import Tree
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.lines.line_table import Row
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.ranges import code_of, location_at, start_of
from tracer.resolve.dwarf.units.unit import Entry
from tracer.resolve.safety.code import Code, Range
from tracer.resolve.safety.disassembly import Instruction
from tracer.resolve.unwind.rules import Rule
from tracer.resolve.unwind.unwind_tables import Tables
from tracer.resolve.variables.expressions import REGISTERS, Around, Refused, plus, value_of

_CALL_FRAME_CFA, _REG0, _BREG0 = 0x9C, 0x50, 0x70
_RED_ZONE = 128
"""Bytes below the stack pointer that a function may use."""

_STORED = re.compile(r"\[(rbp|rsp|ebp|esp|sp|x29)(?:,? ([+-]) ?(0x[0-9a-f]+|\d)|, #(-?)(0x[0-9a-f]+|\d+))?\]")
_WORDS = re.compile(r"\b[a-z][a-z0-9]*\b")
_KEEPS = ("push", "cmp", "test", "nop", "endbr64", "endbr32", "str", "stp", "paciasp", "bti", "sub", "and", "stur")
"""Instructions of prologues that write no register but the stack pointer, or the first operand."""
_MOVES = ("mov", "movabs", "lea", "movaps", "movups", "movss", "movsd", "movzx", "movsx", "movsxd", "add", "xor", "or")

NO_ROOM = "its frame is not there"
NO_UNWIND = "no unwind table has the place, so the frame is not known"


class FrameAt:
    """The frame of the function that an entry describes. `rows` are the line table's of its code, in order."""

    def __init__(self, function: Entry, code: Code, tables: Tables, rows: Sequence[Row]) -> None:
        self.function, self.code, self.tables, self.rows = function, code, tables, rows
        self.start = start_of(function) or 0
        self.ranges = list(code_of(function))
        self.machine = code.elf.machine
        self._rules: dict[int, Rule | None] = {}

    def rule(self, address: int) -> Rule | None:
        if address not in self._rules:
            self._rules[address] = self.tables.rule(address)
        return self._rules[address]

    def cfa(self, address: int) -> Tree:
        """The CFA at an address. Raises `Refused`."""
        rule = self.rule(address)
        if rule is None:
            raise Refused(NO_UNWIND)
        if rule.expression is not None:
            return value_of(rule.expression, self._around(address))
        return plus(("reg", self._name(rule.register)), rule.offset)

    def base(self, address: int) -> Tree:
        """DW_AT_frame_base at an address. Raises `Refused` where the register does not hold it."""
        expression = self._base
        if expression == bytes((_CALL_FRAME_CFA,)):
            return self.cfa(address)
        if len(expression) == 1 and _REG0 <= expression[0] < _BREG0:
            number = expression[0] - _REG0
            return plus(("reg", self._name(number)), self._moved(number, address))
        stated = location_at(self.function, address, dw.FRAME_BASE)
        if not stated:
            raise Refused("nothing says where the frame is")
        return value_of(stated, self._around(address))

    def registers(self, address: int) -> set[Tree]:
        """The stack pointer, and the register that holds the frame at an address."""
        rule = self.rule(address)
        frame_register = None if rule is None or rule.expression is not None else self._name(rule.register)
        return {("reg", "sp"), ("reg", frame_register)}

    def slot(self, address: int, offset: int) -> int | None:
        """The distance from the CFA of what lies that far from the frame's base; None where that is not known."""
        expression = self._base
        if expression == bytes((_CALL_FRAME_CFA,)):
            return offset
        if len(expression) == 1 and _REG0 <= expression[0] < _BREG0:
            whole = self._whole(expression[0] - _REG0)
            return None if whole is None else offset - whole
        return None

    @cached_property
    def _base(self) -> bytes:
        return self.function.block(dw.FRAME_BASE) or b""

    def _moved(self, register: int, address: int) -> int:
        """The distance of a register at an address from where it is in the function's body."""
        whole, rule = self._whole(register), self.rule(address)
        if whole is None or rule is None:
            return 0  # no table: the register is what it is
        if rule.register != register or rule.expression is not None:
            if self._name(register) in ("bp", "x29"):
                raise Refused(NO_ROOM)
            return 0
        if rule.offset < whole:
            raise Refused(NO_ROOM)
        return rule.offset - whole

    def _whole(self, register: int) -> int | None:
        """The CFA less that register, once the prologue has run."""
        place = max(self.body, self.start)
        rule = self.rule(place)
        if rule is None or rule.register != register or rule.expression is not None:
            rules = [self.rule(row.address) for row in self.rows if row.address >= place]
            rule = next((later for later in rules if later is not None and later.register == register), None)
        return None if rule is None else rule.offset

    def _name(self, number: int) -> str:
        names = REGISTERS[self.machine]
        if not 0 <= number < len(names):
            raise Refused("the frame's base is in a register that no probe can read")
        return names[number]

    def _around(self, address: int) -> Around:
        def unknown() -> Tree:
            raise Refused("nothing says where the frame is")

        return Around(address, self.machine, self.function.unit, unknown, lambda: self.cfa(address))

    # --- the prologue

    @cached_property
    def body(self) -> int:
        """The address behind the prologue: the second row of the line table, as debuggers take it."""
        end = next((end for start, end in self.ranges if start == self.start), self.start)
        return next((row.address for row in self.rows if self.start < row.address < end), self.start)

    @cached_property
    def entry_block(self) -> tuple[Instruction, ...]:
        """The instructions from the entry on, up to the first that may go elsewhere."""
        end = next((end for start, end in self.ranges if start == self.start), self.start)
        instructions: list[Instruction] = []
        with suppress(TracerError):
            for instruction in self.code.instructions(Range(self.start, end, "")):
                instructions.append(instruction)
                if instruction.jumps or instruction.calls or instruction.returns or not instruction.goes_on:
                    break
        return tuple(instructions)

    def stored(self, slot: int, size: int) -> int | None:
        """The last instruction of the entry block that stores to a part of the frame; None where none does."""
        last = None
        for instruction in self.entry_block:
            written_slot = self._written_slot(instruction)
            if written_slot is not None and slot <= written_slot < slot + max(size, 1):
                last = instruction.address
        return last

    def _written_slot(self, instruction: Instruction) -> int | None:
        target, _, _ = instruction.operands.partition(", ")
        if instruction.mnemonic in ("str", "stur", "stp"):
            target = instruction.operands
        elif instruction.mnemonic not in _MOVES or "[" not in target:
            return None
        stored = _STORED.search(target)
        rule = self.rule(instruction.address)
        if stored is None or rule is None or rule.expression is not None:
            return None
        register = {"rbp": "bp", "rsp": "sp", "ebp": "bp", "esp": "sp"}.get(stored[1], stored[1])
        if not 0 <= rule.register < len(REGISTERS[self.machine]) or self._name(rule.register) != register:
            return None
        number = int(stored[3] or stored[5] or "0", 0)
        return (-number if "-" in (stored[2], stored[4]) else number) - rule.offset

    def keeps(self, register: str, address: int) -> bool:
        """Whether a register is at an address of the entry block as it was at the function's entry."""
        spellings = {register, *(f"{affix}{register}" for affix in "re"), *(f"{register}{affix}" for affix in "dwbl")}
        spellings |= {f"{register[:1]}l"} if self.machine in EM_X86 else {f"w{register[1:]}"}
        for instruction in self.entry_block:
            if instruction.address >= address:
                return True
            words = _WORDS.findall(instruction.operands)
            if instruction.mnemonic in ("endbr64", "endbr32", "nop", "push", "paciasp", "bti", "cmp", "test"):
                continue
            if instruction.mnemonic not in (*_KEEPS, *_MOVES):
                return False
            first = instruction.operands.partition(", ")[0]
            if "[" in first or instruction.mnemonic in ("str", "stp", "stur"):
                continue
            if words and words[0] in spellings:
                return False
        return False

    def in_entry_block(self, address: int) -> bool:
        return bool(self.entry_block) and self.start <= address <= self.entry_block[-1].address

    def is_below_the_stack(self, slot: int, address: int) -> bool:
        """Whether a part of the frame is so far below the stack pointer that the function cannot have made it yet."""
        rule = self.rule(address)
        if rule is None or rule.expression is not None or not 0 <= rule.register < len(REGISTERS[self.machine]):
            return False
        return self._name(rule.register) == "sp" and slot < -rule.offset - (0 if self.machine == EM_386 else _RED_ZONE)


def frame_offset(expression: bytes) -> int | None:
    """The number of an expression that is DW_OP_fbreg alone."""
    if expression[:1] != b"\x91":
        return None
    number, end = leb(expression, 1, signed=True)
    return number if end == len(expression) else None
