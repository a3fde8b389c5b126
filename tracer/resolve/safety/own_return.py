"""Functions that read their own return address before they push anything.

Compilers do so where a program asks who called it. Assembler functions also save the address in order to return there
again: a `setjmp` of a language with its own exceptions (Free Pascal's is FPC_SETJMP). A return probe puts the address
of the kernel's trampoline there, which is not valid the second time: the program loops or dies.
"""

from __future__ import annotations

import re

from tracer.kinds.arch import EM_386, EM_X86
from tracer.resolve.elf.symbol_table import Function
from tracer.resolve.safety.code import Code
from tracer.resolve.safety.disassembly import decode

_BEGINNING = 64
"""Bytes of a function that are looked at: enough to store each register that callers keep."""

_LOADS = re.compile(rb"[\x48\x4c]\x8b[\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x24|\xff\x34\x24")
_LOADS_32 = re.compile(rb"\x8b[\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x24|\xff\x34\x24")
_POPS = re.compile(rb"(?:\xf3\x0f\x1e[\xfa\xfb])?\x41?[\x58-\x5f]")
_MOVES_STACK = ("push", "pop", "call", "enter", "leave")


def reads_own_return(code: Code, function: Function) -> bool:
    """Whether it loads what lies at the stack pointer, or takes it from there, while that is its return address."""
    if code.elf.machine not in EM_X86:
        return False
    around = code.range_of(function)
    content = code.elf.memory(around.start, min(around.end - around.start, _BEGINNING), "the function's code") or b""
    if _POPS.match(content):
        return True
    loads = _LOADS_32 if code.elf.machine == EM_386 else _LOADS
    if not loads.search(content):
        return False
    for instruction in decode(content, around.start, code.elf.machine):
        if loads.match(content, instruction.address - around.start) and instruction.mnemonic in ("mov", "push"):
            return True
        if instruction.mnemonic.startswith(_MOVES_STACK) or instruction.operands.startswith(("rsp,", "esp,")):
            return False
        if not instruction.goes_on:
            return False
    return False
