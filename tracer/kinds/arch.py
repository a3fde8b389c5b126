"""Differences between processors: registers, calling conventions, numbers in ELF files.

Register names are those of the kernel's pt_regs, without decoration, as `kinds.site.Reg` wants them.
Sources: System V ABI, AMD64 supplement, 3.2.3 and 4.4; Intel386 supplement, 2.2 and 4.4; AAPCS64, 6.8; ELF for the Arm
64-bit architecture, 5.7; Go's internal ABI specification (abi-internal.md); glibc, sysdeps/generic/ldconfig.h.
"""

from __future__ import annotations

import platform
from functools import lru_cache

from tracer.dataclass import dataclass
from tracer.kinds.site import ArgSpec, Mem, Operand, Reg

EM_386, EM_X86_64, EM_AARCH64 = 3, 62, 183
EM_X86 = frozenset((EM_386, EM_X86_64))
"""The processor that has one set of instructions for 32 and for 64 bits."""

RETURN_PROBE_PAGE = 0x7FFFFFFFE
"""The number of the page that Linux gives a process for return probes on x86-64: the highest one, where that is free (a
stack without randomization lies there). On aarch64 it is elsewhere.
"""

RETURN_PROBE_PAGE_32 = 0xFFFFD
"""The number of that page in a 32-bit process on x86-64."""

MAX_FUNCTION_ARGS = 10
"""`arg0` to `arg9`: the registers of the convention, then words on the stack."""


@dataclass(frozen=True, slots=True)
class Relocations:
    """The kinds of relocations: the address of a symbol as data (64, ABS64), in the global offset table, in the linkage
    table; the load address plus a number; what a resolver at that number returns; and a library's variable that the
    program has a place of its own for.
    """

    absolute: int
    glob_dat: int
    jump_slot: int
    relative: int
    irelative: int
    copy: int


@dataclass(frozen=True, slots=True)
class Arch:
    """An architecture. `word`: the bytes of an address. `stack_arg` is where argument number `len(args)` stands at the
    function's first instruction, relative to the stack pointer, in bytes. Of libraries `cache_flags` stand in the
    loader's cache, and `triplet` names their directory, beside `directories`. `registers` are those that hold addresses
    and integers, `state` the other ones of pt_regs. It is the `host` that the kernel runs such programs on.
    """

    name: str
    machine: int
    args: tuple[str, ...]
    go_args: tuple[str, ...]
    returns: str
    stack_arg: int
    relocations: Relocations
    cache_flags: int
    triplet: str
    registers: tuple[str, ...]
    state: tuple[str, ...] = ()
    word: int = 8
    directories: tuple[str, ...] = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")
    host: int | None = None

    def runs_on(self, machine: Arch) -> bool:
        """Whether programs for it run on a machine: its own, or a wider one that keeps its instructions."""
        return machine.machine in (self.machine, self.host)

    @lru_cache(maxsize=6)  # noqa: B019 - architectures are a few constants
    def function_args(self, go: bool = False) -> tuple[ArgSpec, ...]:
        """arg0, arg1, … at the entry of a function, a word each; of a Go function the words in Go's registers.

        One tuple for all functions: a wildcard means tens of thousands.
        """
        registers = self.go_args if go else self.args
        operands: list[Operand] = [Reg(name) for name in registers]
        if not go:
            above = range(MAX_FUNCTION_ARGS - len(registers))
            operands += [Mem("sp", self.stack_arg + self.word * index) for index in above]
        return tuple(ArgSpec("", self.word, False, operand, word=self.word) for operand in operands[:MAX_FUNCTION_ARGS])


GO_STACK_ARGS = tuple(ArgSpec("", 8, False, Mem("sp", 8 + 8 * index)) for index in range(MAX_FUNCTION_ARGS))
"""The words of a Go function in assembler (ABI0), above a return address or the room for one."""

X86_64 = Arch(
    "x86-64",
    EM_X86_64,
    args=("di", "si", "dx", "cx", "r8", "r9"),
    go_args=("ax", "bx", "cx", "di", "si", "r8", "r9", "r10", "r11"),
    returns="ax",
    stack_arg=8,  # above the return address
    relocations=Relocations(absolute=1, glob_dat=6, jump_slot=7, relative=8, irelative=37, copy=5),
    cache_flags=0x0303,
    triplet="x86_64-linux-gnu",
    registers=("ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", *(f"r{number}" for number in range(8, 16))),
    state=("flags", "orig_ax", "cs", "ss"),
)

I386 = Arch(
    "i386",
    EM_386,
    args=(),  # all are on the stack
    go_args=(),
    returns="ax",
    stack_arg=4,
    relocations=Relocations(absolute=1, glob_dat=6, jump_slot=7, relative=8, irelative=42, copy=5),
    cache_flags=0x0003,
    triplet="i386-linux-gnu",
    registers=("ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip"),
    word=4,
    directories=("/lib32", "/usr/lib32", "/lib", "/usr/lib", "/usr/local/lib"),
    host=EM_X86_64,
)

AARCH64 = Arch(
    "aarch64",
    EM_AARCH64,
    args=tuple(f"x{number}" for number in range(8)),
    go_args=tuple(f"x{number}" for number in range(16)),
    returns="x0",
    stack_arg=0,
    relocations=Relocations(
        absolute=257, glob_dat=1025, jump_slot=1026, relative=1027, irelative=1032, copy=1024
    ),
    cache_flags=0x0A03,
    triplet="aarch64-linux-gnu",
    registers=(*(f"x{number}" for number in range(31)), "sp", "ip"),
    state=("pstate",),
)

ARCHES = {arch.machine: arch for arch in (X86_64, I386, AARCH64)}


def native() -> Arch | None:
    """The architecture of the machine we run on, or None where it is neither of the two."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(platform.machine())


def machine_name(machine: int) -> str:
    """The name of a machine number of the ELF header."""
    arch = ARCHES.get(machine)
    return f"machine {machine}" if arch is None else arch.name


def _x86_registers() -> dict[str, tuple[str, int]]:
    table = {"rip": ("ip", 8)}
    for short in ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp"):
        low = f"{short[0]}l" if short[1] == "x" else f"{short}l"
        table.update({f"r{short}": (short, 8), f"e{short}": (short, 4), short: (short, 2), low: (short, 1)})
    for number in range(8, 16):
        full = f"r{number}"
        table.update({full: (full, 8), f"{full}d": (full, 4), f"{full}w": (full, 2), f"{full}b": (full, 1)})
    return table


X86_REGISTERS = _x86_registers()
"""Assembler name (without %) → pt_regs name and width in bytes."""

I386_REGISTERS = {
    name: (full, width) for name, (full, width) in X86_REGISTERS.items() if full in I386.registers and width < 8
}
"""Assembler name (without %) → pt_regs name and width in bytes, of i386."""
