"""A Go function really begins behind the check of its stack: this module finds that address.

Most functions of Go compare the stack pointer with the end of the goroutine's stack first of all. Where there is no
limit they call `runtime.morestack`, which moves the stack to a larger place, and jump back to their first instruction:
a probe there counts one call twice. The same check is how the scheduler takes the processor from a goroutine. So the
probe goes to the instruction behind the check, which a call reaches once. The arguments are where they were: the check
uses registers that hold none (Go's abi-internal.md), and the stack pointer has not moved.

    small frames            large ones                     huge ones
    cmp rsp, [r14+0x10]     lea r12, [rsp-N]               mov r12, rsp
    jbe more                cmp r12, [r14+0x10]            sub r12, N
                            jbe more                       jb  more
                                                           cmp r12, [r14+0x10]; jbe more

`more` keeps the arguments in their places on the stack, calls, takes them back, and jumps to the function's start. A
function of assembler code loads r14 (rcx before Go 1.17) first. Source: stacksplit in cmd/internal/obj/x86/obj6.go.

All of this must be there, and the instruction behind must move the stack pointer: no loop of the function jumps to
one that does. Whatever looks otherwise is probed at its first instruction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from tracer.kinds.arch import EM_386, EM_X86_64
from tracer.resolve.safety.code import Code
from tracer.resolve.safety.disassembly import Instruction, decode

_MORE = ("runtime.morestack", "runtime.morestack_noctxt", "runtime.morestackc")

_CHECK = 64
"""Bytes that the check takes, at most."""
_KEEPING = 640
"""Bytes to keep and take back nine integers and fifteen floating-point numbers, and to call."""

_LOADS_G = re.compile(r"mov (r14|rcx), (0x\w+|qword ptr (fs:\[(0x\w+|r14|rcx)\]|\[rip [+-] 0x\w+\]))")
_SPARE = re.compile(r"(lea r1[23], \[rsp - \w+\]|mov r1[23], rsp|sub r1[23], \w+)")
_COMPARES = re.compile(r"cmp (rsp|r1[23]), qword ptr \[(r14|rcx) \+ 0x1[08]\]")
_PARTS = {
    EM_X86_64: (_LOADS_G, _SPARE, _COMPARES),
    EM_386: (
        re.compile(r"mov ecx, dword ptr (gs:\[(0|0x\w+)\]|\[ecx( [+-] \w+)?\])"),
        re.compile(r"(lea eax, \[esp - \w+\]|mov eax, esp|sub eax, \w+)"),
        re.compile(r"cmp (esp|eax), dword ptr \[ecx \+ (8|0xc)\]"),
    ),
}
"""The instructions of a check; on i386 ecx has the goroutine, and eax what is compared."""
_KEEPS = re.compile(r"v?mov\w* (.*\[rsp \+ \w+\], \w+|\w+, .*\[rsp \+ \w+\])|nop.*|xchg ax, ax")
_MAKES_FRAME = re.compile(r"(sub|add) [re]sp, .*|push [re]bp")


class StackChecks:
    """The checks of one file's functions."""

    def __init__(self, code: Code) -> None:
        self._code = code

    @cached_property
    def _more(self) -> frozenset[int]:
        """The start of each function that grows the stack."""
        names = [name + end for name in _MORE for end in ("", ".abi0")]
        return frozenset(function.address for name in names for function in self._code.symbols.named(name))

    def body(self, start: int, end: int) -> tuple[int, int]:
        """The address of the instruction behind the check of the function that has these bytes, and where the code
        begins that makes the stack larger; `start` and `end` where no check is proven.
        """
        none = start, end
        parts = _PARTS.get(self._code.elf.machine)
        if parts is None:
            return none
        check = self._decoded(start, min(end, start + _CHECK))
        for index, instruction in enumerate(check):
            line = f"{instruction.mnemonic} {instruction.operands}"
            if instruction.mnemonic in ("jb", "jbe"):
                if instruction.target is None or not self._comes_back(instruction.target, start, end):
                    return none
                if instruction.mnemonic == "jbe":
                    return (check[index + 1].address, instruction.target) if _makes_frame(check, index) else none
            elif not any(part.fullmatch(line) for part in parts):
                return none
        return none

    def _comes_back(self, more: int, start: int, end: int) -> bool:
        """Whether the code at `more` calls for a larger stack and begins the function again."""
        if not start < more < end:
            return False
        called = False
        for instruction in self._decoded(more, min(end, more + _KEEPING)):
            if instruction.mnemonic == "jmp":
                return called and instruction.target == start
            if instruction.calls:
                if called or instruction.target not in self._more:
                    return False
                called = True
            elif not _KEEPS.fullmatch(f"{instruction.mnemonic} {instruction.operands}"):
                return False
        return False

    def _decoded(self, start: int, end: int) -> Sequence[Instruction]:
        return decode(self._code.elf.memory(start, end - start, "the code") or b"", start, self._code.elf.machine)


def _makes_frame(check: Sequence[Instruction], jump: int) -> bool:
    """Whether a comparison stands before the jump, and behind it what moves the stack pointer."""
    if not jump or check[jump - 1].mnemonic != "cmp" or jump + 1 >= len(check):
        return False
    first = check[jump + 1]
    return _MAKES_FRAME.fullmatch(f"{first.mnemonic} {first.operands}") is not None
