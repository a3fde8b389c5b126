"""Instructions that Linux takes for others when they are probed (x86-64).

The kernel executes a probed instruction from a copy, but short jumps, calls and `nop` it emulates. It tells them by the
byte of the opcode, and does not look at the prefix before it (arch/x86/kernel/uprobes.c, branch_setup_xol_ops; the
decoder gives a VEX or EVEX instruction one byte of opcode). So a probed `vpbroadcastb`, 7a behind an EVEX prefix, was
"jp" and was never executed: strchr of a libc with AVX-512 found what was not there, and python said "Unknown option"
to any option. `vpshufd`, `vpcmpeqb`, `vmovd` to memory, `vzeroupper`, `vpor` and `vpsubsb` went the same way, `xchg
%r8,%rax` was a nop, and `vfnmadd132ss` (9d, popf) ended by SIGTRAP. All tried on 6.18, one by one, with a function of
our own; 6.1 answered the same. Opcodes that the kernel refuses there (60-6f, c4, d6, ea) do no harm.
"""

from __future__ import annotations

_SEGMENT_OR_SIZE = frozenset(b"\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2\xf3")
_BYTES_BEFORE_OPCODE = {0xC5: 2, 0xC4: 3, 0x62: 4}  # of VEX and EVEX (Intel SDM, 2.3 and 2.7)
_TAKEN_FOR_OTHERS = frozenset({*range(0x70, 0x80), 0x90, 0x9A, 0x9D, 0xC2, 0xC3, 0xCA, 0xCB, 0xE8, 0xE9, 0xEA, 0xEB})
_NOP = 0x90
_REX_B = 0x01

SUSPECT = _SEGMENT_OR_SIZE.union(_BYTES_BEFORE_OPCODE, range(0x40, 0x50))
"""The first bytes of which one is there in all of them."""

LONGEST = 16
"""Bytes that decide, at most."""


def is_misread(code: bytes) -> bool:
    """Whether the x86-64 instruction at the beginning of `code` would not be executed as it is under a probe."""
    at = 0
    while at < len(code) and code[at] in _SEGMENT_OR_SIZE:
        at += 1
    if at >= len(code):
        return False
    first = code[at]
    if first & 0xF0 == 0x40:  # REX; with B it makes nop an exchange of r8
        return bool(first & _REX_B) and code[at + 1 : at + 2] == bytes([_NOP])
    opcode = at + _BYTES_BEFORE_OPCODE.get(first, len(code))
    return opcode < len(code) and code[opcode] in _TAKEN_FOR_OTHERS
