"""The registers that perf samples, and their numbers in DWARF.

Sources: `<asm/perf_regs.h>`; System V ABI, AMD64 supplement, figure 3.36, Intel386 supplement, table 2.14; AADWARF64,
4.1.
"""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.kinds.arch import EM_386, EM_AARCH64, EM_X86_64


@dataclass(frozen=True, slots=True)
class Registers:
    """The registers of a processor. `mask` is perf's `sample_regs_user`; the samples have its bits' registers in
    ascending order, `numbers` says which they are in DWARF. `sp`, `fp`, `ip`: the stack, frame and instruction
    pointer's numbers; `link`: the register that holds the return address, None where it is on the stack. `count`: one
    more than the largest number. `word`: the bytes of an address.
    """

    mask: int
    numbers: tuple[int, ...]
    sp: int
    fp: int
    ip: int
    link: int | None
    count: int
    word: int = 8


# AX BX CX DX SI DI BP SP IP and R8 to R15, with the segments and flags between them left out.
X86_64 = Registers(
    mask=0x1FF | 0xFF << 16, numbers=(0, 3, 2, 1, 4, 5, 6, 7, 16, *range(8, 16)), sp=7, fp=6, ip=16, link=None, count=17
)
AARCH64 = Registers(mask=(1 << 33) - 1, numbers=tuple(range(33)), sp=31, fp=29, ip=32, link=30, count=33)
# Perf samples a 32-bit program by the registers of the machine, of which those behind IP mean nothing.
I386 = Registers(
    X86_64.mask, numbers=(0, 3, 1, 2, 6, 7, 5, 4, 8, *range(9, 17)), sp=4, fp=5, ip=8, link=None, count=9, word=4
)

REGISTERS = {EM_X86_64: X86_64, EM_AARCH64: AARCH64, EM_386: I386}
