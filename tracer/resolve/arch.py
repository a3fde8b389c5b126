"""Registers and calling conventions: tables for x86-64 and aarch64.

Register names are those of the kernel's pt_regs, without decoration, as `resolve.model.Reg` wants them.
Sources: System V ABI, AMD64 supplement, 3.2.3; AAPCS64, 6.8; Go's internal ABI specification (abi-internal.md).
"""

from __future__ import annotations

import platform
from functools import lru_cache

from tracer.dataclass import dataclass
from tracer.resolve.elf.layout import EM_AARCH64, EM_X86_64
from tracer.resolve.model import ArgSpec, Mem, Operand, Reg

MAX_FUNCTION_ARGS = 10
"""`arg0` to `arg9`: the registers of the convention, then words on the stack."""


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture. `stack_arg` is where argument number `len(args)` stands at the function's first instruction,
    relative to the stack pointer, in bytes.
    """

    name: str
    machine: int
    args: tuple[str, ...]
    go_args: tuple[str, ...]
    returns: str
    stack_arg: int

    @lru_cache(maxsize=4)  # noqa: B019 - architectures are two constants
    def function_args(self, go: bool = False) -> tuple[ArgSpec, ...]:
        """arg0, arg1, … at the entry of a function, 8 bytes each; of a Go function the words in Go's registers.

        One tuple for all functions: a wildcard means tens of thousands.
        """
        registers = self.go_args if go else self.args
        operands: list[Operand] = [Reg(name) for name in registers]
        if not go:
            operands += [
                Mem("sp", self.stack_arg + 8 * (index - len(registers)))
                for index in range(len(registers), MAX_FUNCTION_ARGS)
            ]
        return tuple(ArgSpec("", 8, False, operand) for operand in operands[:MAX_FUNCTION_ARGS])

    @property
    def return_register(self) -> Reg:
        """Where `retval` is, both in a return probe and at a `ret`."""
        return Reg(self.returns)


GO_STACK_ARGS = tuple(ArgSpec("", 8, False, Mem("sp", 8 + 8 * index)) for index in range(MAX_FUNCTION_ARGS))
"""The words of a Go function in assembler (ABI0), above a return address or the room for one."""

X86_64 = Arch(
    "x86-64",
    EM_X86_64,
    ("di", "si", "dx", "cx", "r8", "r9"),
    ("ax", "bx", "cx", "di", "si", "r8", "r9", "r10", "r11"),
    "ax",
    8,  # above the return address
)

AARCH64 = Arch(
    "aarch64",
    EM_AARCH64,
    tuple(f"x{number}" for number in range(8)),
    tuple(f"x{number}" for number in range(16)),
    "x0",
    0,
)

ARCHES = {arch.machine: arch for arch in (X86_64, AARCH64)}


def host() -> Arch | None:
    """The architecture of the machine we run on, or None where it is neither of the two."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(platform.machine())


def _x86_registers() -> dict[str, tuple[str, int]]:
    table = {}
    for short in ("ax", "bx", "cx", "dx"):
        letter = short[0]
        table.update({f"r{short}": (short, 8), f"e{short}": (short, 4), short: (short, 2), f"{letter}l": (short, 1)})
    for short in ("si", "di", "bp", "sp"):
        table.update({f"r{short}": (short, 8), f"e{short}": (short, 4), short: (short, 2), f"{short}l": (short, 1)})
    for number in range(8, 16):
        full = f"r{number}"
        table.update({full: (full, 8), f"{full}d": (full, 4), f"{full}w": (full, 2), f"{full}b": (full, 1)})
    table["rip"] = ("ip", 8)
    return table


X86_REGISTERS = _x86_registers()
"""Assembler name (without %) → pt_regs name and width in bytes."""
