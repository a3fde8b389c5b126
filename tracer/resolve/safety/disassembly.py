"""Machine code → instructions, by capstone, which is loaded when first needed (some 60 ms)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from tracer.dataclass import NamedTuple
from tracer.errors import TracerError
from tracer.kinds.arch import EM_386, EM_AARCH64, EM_X86_64

if TYPE_CHECKING:
    from capstone import Cs

MAX_FUNCTION = 4 << 20
"""Bytes of code decoded at most for one function; the longest in libjvm has 60,000."""

_ARM_JUMPS = ("b", "br", "cbz", "cbnz", "tbz", "tbnz", "braa", "brab", "braaz", "brabz")
_ENDS = ("jmp", "ljmp", "ud2", "hlt", "int3", "b", "br", "braa", "brab", "braaz", "brabz", "udf", "brk")
_PREFIXES = ("notrack ", "bnd ", "repz ", "rep ", "repne ")


class Instruction(NamedTuple):
    """An instruction; `mnemonic` without prefixes, `operands` in the assembler's (Intel's, on x86-64) syntax."""

    address: int
    size: int
    mnemonic: str
    operands: str

    @property
    def target(self) -> int | None:
        """The target of a direct jump or call."""
        last = self.operands.rpartition(", ")[2].lstrip("#")
        return int(last, 16) if re.fullmatch(r"0x[0-9a-f]+|\d", last) else None

    @property
    def jumps(self) -> bool:
        """Whether it is a jump, conditional or not; calls and returns are none."""
        name = self.mnemonic
        return name[:1] == "j" or name[:4] == "loop" or name[:2] == "b." or name in _ARM_JUMPS

    @property
    def returns(self) -> bool:
        """Whether it returns from the function."""
        return self.mnemonic in ("ret", "retf", "retfq", "retaa", "retab")

    @property
    def calls(self) -> bool:
        """Whether it calls a function."""
        return self.mnemonic in ("call", "lcall", "bl", "blr", "blraa", "blrab", "blraaz", "blrabz")

    @property
    def goes_on(self) -> bool:
        """Whether what follows it in memory may be executed next."""
        return not (self.returns or self.mnemonic in _ENDS)


@lru_cache(maxsize=3)
def _engine(machine: int) -> Cs:
    try:
        import capstone
    except ImportError:
        raise TracerError(
            "the disassembler capstone is missing, so no offset inside a function can be checked",
            "install it: python3 -m pip install capstone",
        ) from None
    if machine == EM_X86_64:
        return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    if machine == EM_386:
        return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_32)
    if machine == EM_AARCH64:
        return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    raise TracerError(f"code of ELF machine {machine} cannot be checked: only x86-64, i386 and aarch64 are known")


def decode(code: bytes, address: int, machine: int) -> tuple[Instruction, ...]:
    """The instructions from `address` on, up to the end of `code` or the first bytes that are none."""
    result = []
    for start, size, mnemonic, operands in _engine(machine).disasm_lite(code[:MAX_FUNCTION], address):
        for prefix in _PREFIXES:
            mnemonic = mnemonic.removeprefix(prefix)
        result.append(Instruction(start, size, mnemonic, operands))
    return tuple(result)
