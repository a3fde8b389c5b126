"""Bytes of instructions: no-operations, breakpoints, and what Linux takes for another instruction when it is probed.

The kernel executes a probed instruction from a copy, but short jumps, calls and `nop` it emulates. It tells them by the
byte of the opcode, and does not look at the prefix before it (arch/x86/kernel/uprobes.c, branch_setup_xol_ops; the
decoder gives a VEX or EVEX instruction one byte of opcode). So a probed `vpbroadcastb`, 7a behind an EVEX prefix, is
"jp" there and is never executed: strchr of a libc with AVX-512 finds what is not there. `vpshufd`, `vpcmpeqb`, `vmovd`
to memory, `vzeroupper`, `vpor` and `vpsubsb` go the same way, `xchg %r8,%rax` is a nop, and `vfnmadd132ss` (9d, popf)
ends by SIGTRAP. Seen on 6.1 and 6.18. Opcodes that the kernel refuses there (60-6f, c4, d6, ea) do no harm.
"""

from __future__ import annotations

from tracer.kinds.arch import EM_386, EM_AARCH64, EM_X86_64

# Intel SDM, NOP: the recommended forms; all that gas and sys/sdt.h have been seen to write.
_X86_NOPS = (
    b"\x90", b"\x66\x90", b"\x0f\x1f\x00", b"\x0f\x1f\x40\x00", b"\x0f\x1f\x44\x00\x00",
    b"\x66\x0f\x1f\x44\x00\x00", b"\x0f\x1f\x80\x00\x00\x00\x00", b"\x0f\x1f\x84\x00\x00\x00\x00\x00",
    b"\x66\x0f\x1f\x84\x00\x00\x00\x00\x00",
)  # fmt: skip
NOPS = {EM_X86_64: _X86_NOPS, EM_386: _X86_NOPS, EM_AARCH64: (b"\x1f\x20\x03\xd5",)}
FIVE_BYTE_NOPS = (b"\x0f\x1f\x44\x00\x00", b"\x66\x0f\x1f\x40\x00")
NOP10 = b"\x66\x2e\x0f\x1f\x84" + bytes(5)

_SEGMENT_OR_SIZE = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
_BYTES_BEFORE_OPCODE = {0xC5: 2, 0xC4: 3, 0x62: 4}  # of VEX and EVEX (Intel SDM, 2.3 and 2.7)
_TAKEN_FOR_OTHERS = frozenset({*range(0x70, 0x80), 0x90, 0x9A, 0x9D, 0xC2, 0xC3, 0xCA, 0xCB, 0xE8, 0xE9, 0xEA, 0xEB})
_NOP = 0x90
_REX_B = 0x01

SUSPECT = _SEGMENT_OR_SIZE.union(_BYTES_BEFORE_OPCODE, range(0x40, 0x50))
"""The first bytes of which one is there in all of them."""

DOUBTFUL = {
    EM_X86_64: SUSPECT.union(b"\xcc\xcd"), EM_386: SUSPECT.union(b"\xcc\xcd"), EM_AARCH64: frozenset(b"\xd4")
}  # fmt: skip
"""The bytes that decide whether an instruction has to be looked at closer, on x86 the first and on aarch64 the
fourth: without any of these it is neither a breakpoint nor misdecoded.
"""

LONGEST = 16
"""Bytes that decide, at most."""


def is_breakpoint(code: bytes, machine: int) -> bool:
    """Whether a breakpoint stands at the beginning of `code`."""
    if machine == EM_AARCH64:
        return len(code) >= 4 and code[3] == 0xD4 and code[2] & 0xE0 == 0x20  # BRK #imm16
    return code[:1] == b"\xcc" or code[:2] == b"\xcd\x03"


def is_misdecoded(code: bytes, machine: int = EM_X86_64) -> bool:
    """Whether the x86 instruction at the beginning of `code` would not be executed as it is under a probe."""
    position = 0
    while position < len(code) and code[position] in _SEGMENT_OR_SIZE:
        position += 1
    if position >= len(code):
        return False
    first = code[position]
    if machine == EM_386 and (first & 0xF0 == 0x40 or code[position + 1 : position + 2] < b"\xc0"):
        return False  # no prefixes there: inc and dec, or les, lds and bound with an address in memory
    if first & 0xF0 == 0x40:  # REX; with B it makes nop an exchange of r8
        return bool(first & _REX_B) and code[position + 1 : position + 2] == bytes([_NOP])
    opcode = position + _BYTES_BEFORE_OPCODE.get(first, len(code))
    return opcode < len(code) and code[opcode] in _TAKEN_FOR_OTHERS
