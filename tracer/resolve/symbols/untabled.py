"""Steps out of x86 code that no unwind table describes: hand-written assembly, code of old or unusual compilers.

The frame pointer alone does not tell. Where such a function does not set it up, it is still its caller's, and a step by
it leads past the caller without a sign. So the function's instructions are followed from its first one on: how far each
moves the stack pointer, and where the caller's frame pointer is meanwhile. Where two ways to one instruction
disagree, nothing is known of what they disagree on. gdb does so too, but guesses where this tells nothing. Code of 32
bits is followed under the names of 64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass, replace
from tracer.errors import TracerError
from tracer.kinds.arch import EM_386, EM_X86_64
from tracer.resolve.safety.disassembly import Instruction, decode
from tracer.resolve.unwind.registers import REGISTERS
from tracer.resolve.unwind.rules import OFFSET, UNDEFINED, Rule
from tracer.resolve.unwind.walker import BROKEN, LAST, Step, step_of

if TYPE_CHECKING:
    from tracer.resolve.symbols.modules import Module

_LONGEST = 1 << 16
"""Bytes of a function that are followed."""

_START = 64
"""Bytes of what a file begins with, at most: the C library's own start has no tables."""

_SHORT = 16
_NOP = b"\x90"
_NARROW = re.compile(r"\be(sp|bp)\b")
_MOST_ROUNDS = 1 << 16

_SETS_UP = {
    EM_X86_64: (b"\x55\x48\x89\xe5", b"\x55\x48\x8b\xec"), EM_386: (b"\x55\x89\xe5", b"\x55\x8b\xec")
}  # fmt: skip
"""`push %rbp; mov %rsp,%rbp`, in both of its spellings."""

_ENDS = re.compile(rb"\xc3(?:\xcc|\x90|\x66|\x0f\x1f)")
"""A return with padding behind it: most probably the end of a function."""

_RBP = ("rbp", "ebp", "bp", "bpl")
_RSP = ("rsp", "esp", "sp", "spl")
_READS_FIRST = ("cmp", "test", "push", "bt", "nop", "prefetch")
"""Beginnings of mnemonics whose first operand is not written."""


@dataclass(frozen=True, slots=True)
class _State:
    """The frame before an instruction: `depth` is the CFA less the stack pointer, `base` the CFA less rbp where that
    points into the frame; `kept`: rbp has the caller's value; `saved`: the CFA less the place of that value. None: not
    known.
    """

    depth: int | None = 8
    base: int | None = None
    kept: bool = True
    saved: int | None = None

    def joined(self, other: _State) -> _State:
        """The state that holds on both ways."""
        return _State(
            self.depth if self.depth == other.depth else None,
            self.base if self.base == other.base else None,
            self.kept and other.kept,
            self.saved if self.saved == other.saved else None,
        )


_LAST, _BROKEN = Step(LAST), Step(BROKEN)


def step_in(module: Module, file_offset: int, exact: bool) -> Step:
    """The step out of the function at an instruction of a file that no table has; if not `exact`, at the next one."""
    address = module.elf.address_of(file_offset)
    if address is None:
        return _BROKEN
    if module.elf.entry <= address < module.elf.entry + _START:
        return _LAST
    wanted = address + (not exact)
    try:
        function = module.symbols.function_at(address)
        if function is not None:
            start = function.address
            code = _read(module, start, start + min(function.size or wanted - start + 16, _LONGEST))
        else:
            start = max(module.tables.end_before(address), wanted - _LONGEST, 0)
            code = _read(module, start, wanted)
            frame = begins_frame(code, module.elf.machine)
            if frame is None:
                return _BROKEN
            start, code = start + frame, code[frame:] + _NOP
        leaves = partial(_leaves_arguments, module)
        rule = rule_of(code, start, wanted, module.elf.machine, exact, leaves)
    except TracerError:
        return _BROKEN
    return _BROKEN if rule is None else step_of(rule, REGISTERS[module.elf.machine])


def _read(module: Module, start: int, end: int) -> bytes:
    return module.elf.memory(start, end - start, "code") or b""


def rule_of(
    code: bytes, start: int, address: int, machine: int = EM_X86_64, exact: bool = False,
    leaves: Callable[[int], bool] = lambda target: False,
) -> Rule | None:  # fmt: skip
    """The rule at an instruction of the function whose first instruction is at `start`; None where the code does not
    tell; if not `exact`, while the call before it runs. `leaves`: whether what is called at an address leaves its
    arguments on the stack. Raises `TracerError` where there is no disassembler.
    """
    instructions, registers = decode(code[:_LONGEST], start, machine), REGISTERS[machine]
    if machine == EM_386:
        instructions = tuple(map(_widened, instructions))
    states = _states(instructions, registers.word, leaves)
    call = None
    if registers.word == 4 and not exact:
        behind = (call for call in instructions if call.calls and call.address + call.size == address != call.target)
        call = next(behind, None)
    state = states.get(address if call is None else call.address)
    if state is None:
        return None
    if state.depth is not None:
        register, offset = registers.sp, state.depth
    elif state.base is not None:
        register, offset = registers.fp, state.base
    else:
        return None
    saved: dict[int, tuple[int, int | bytes]] = {registers.ip: (OFFSET, -registers.word)}
    if not state.kept:
        saved[registers.fp] = (OFFSET, -state.saved) if state.saved is not None else (UNDEFINED, 0)
    return Rule(register, offset, None, saved, registers.ip, False)


def _widened(instruction: Instruction) -> Instruction:
    """An instruction of 32 bits as that of 64 bits would be written."""
    name = {"pushfd": "pushfq", "popfd": "popfq"}.get(instruction.mnemonic, instruction.mnemonic)
    operands = _NARROW.sub(r"r\1", instruction.operands).replace("dword ptr", "qword ptr")
    return instruction._replace(mnemonic="enter" if name in ("pushal", "popal") else name, operands=operands)


def begins_frame(code: bytes, machine: int = EM_X86_64) -> int | None:
    """The place in code that ends at an instruction at which the frame of its function is set up, if the function is
    unknown; None where it does not seem to set one up, so that the frame pointer may be its caller's.
    """
    position = max(map(code.rfind, _SETS_UP[machine]))
    return None if position < 0 or _ENDS.search(code, position) else position


def _leaves_arguments(module: Module, target: int) -> bool:
    """Whether the function at an address is known to return without taking anything off the stack."""
    function = module.symbols.function_at(target)
    if function is None or function.address != target:
        return False
    size = min(function.size or _SHORT, _LONGEST)
    code = decode(_read(module, target, target + size), target, module.elf.machine)
    if not function.size:  # as the one that tells position-independent code where it is: nothing but that
        code = code[: next((number for number, instruction in enumerate(code, 1) if not instruction.goes_on), 0)]
    leaving = any(instruction.jumps and instruction.target not in range(target, target + size) for instruction in code)
    returns = [instruction for instruction in code if instruction.returns]
    return bool(returns) and not leaving and not any(instruction.operands for instruction in returns)


def _states(
    instructions: Sequence[Instruction], word: int, leaves: Callable[[int], bool]
) -> dict[int, _State]:
    """The state before each instruction that the first one leads to, and behind the last."""
    index = {instruction.address: number for number, instruction in enumerate(instructions)}
    states: dict[int, _State] = {}
    waiting = [(instructions[0].address, _State(word))] if instructions else []
    rounds = 0
    while waiting and rounds < _MOST_ROUNDS:
        rounds += 1
        address, state = waiting.pop()
        before = states.get(address)
        if before is not None:
            state = before.joined(state)
            if state == before:
                continue
        states[address] = state
        number = index.get(address)
        if number is None:
            continue
        instruction = instructions[number]
        behind = _behind(instruction, state, word)
        following, target = instruction.address + instruction.size, instruction.target
        # What i386 calls may take its arguments away.
        if word == 4 and instruction.calls and target != following and (target is None or not leaves(target)):
            behind = replace(behind, depth=None)
        if instruction.goes_on:
            waiting.append((following, behind))
        if instruction.jumps and target in index:
            waiting.append((target, behind))
    return {} if waiting else states


def _behind(instruction: Instruction, state: _State, word: int) -> _State:
    """The state that an instruction leaves. What a function does that is called, it undoes."""
    name, operands = instruction.mnemonic, instruction.operands
    first, _, second = operands.partition(", ")
    depth = state.depth
    if name == "call":  # of what follows it, to learn where it is
        if instruction.target == instruction.address + instruction.size:
            return _moved(state, word)
        return state
    if name in ("push", "pushfq"):
        state = _moved(state, word)
        if operands == "rbp" and state.kept and state.saved is None and state.depth is not None:
            return replace(state, saved=state.depth)
        return state
    if name in ("pop", "popfq"):
        moved = _moved(state, -word)
        if operands in _RBP:
            return _taken_back(moved, depth)
        return replace(moved, depth=None) if operands in _RSP else moved
    if name == "leave":
        moved = replace(state, depth=None if state.base is None else state.base - word)
        return _taken_back(moved, state.base)
    if name == "enter":
        return _State(None, None, False, None)
    if first == "rsp":
        if (by := _number(second)) is not None and name in ("add", "sub"):
            return _moved(state, by if name == "sub" else -by)
        if name in ("mov", "lea") and (place := _place(second, state)) is not None:
            return replace(state, depth=place)
    if first == "rbp" and name in ("mov", "lea") and (place := _place(second, state)) is not None:
        return replace(state, base=place, kept=False)
    if name == "mov" and second == "rbp" and (slot := _slot(first, state)) is not None:
        return replace(state, saved=slot) if state.kept and state.saved is None else state
    if name == "mov" and first == "rbp" and (slot := _slot(second, state)) is not None:
        return _taken_back(state, slot)
    if name.startswith("xchg"):
        return _written(_written(state, first), second)
    return state if name.startswith(_READS_FIRST) or name[:1] == "j" else _written(state, first)


def _moved(state: _State, by: int) -> _State:
    return replace(state, depth=None if state.depth is None else state.depth + by)


def _taken_back(state: _State, slot: int | None) -> _State:
    """The frame pointer is loaded from a place in the frame."""
    if slot is not None and slot == state.saved:
        return replace(state, base=None, kept=True)
    return replace(state, base=None, kept=False)


def _written(state: _State, register: str) -> _State:
    if register in _RSP:
        return replace(state, depth=None)
    return replace(state, base=None, kept=False) if register in _RBP else state


def _place(operand: str, state: _State) -> int | None:
    """The bytes by which an operand points below the CFA: rsp, rbp, or one of these and a number in brackets."""
    if operand in ("rsp", "rbp"):
        return state.depth if operand == "rsp" else state.base
    place = re.fullmatch(r"\[(rsp|rbp)(?: ([+-]) (0x[0-9a-f]+|\d+))?\]", operand)
    if place is None:
        return None
    from_place = state.depth if place[1] == "rsp" else state.base
    by = int(place[3] or "0", 0)
    return None if from_place is None else from_place - by if place[2] == "+" else from_place + by


def _slot(operand: str, state: _State) -> int | None:
    """The bytes by which an operand of eight bytes of memory lies below the CFA."""
    return _place(operand.removeprefix("qword ptr "), state) if operand.startswith("qword ptr [") else None


def _number(operand: str) -> int | None:
    return int(operand, 0) if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", operand) else None
