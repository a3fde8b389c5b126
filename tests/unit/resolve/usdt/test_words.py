"""Arguments in words: what the note says, read by a person."""

from __future__ import annotations

import pytest

from tracer.kinds.arch import AARCH64, X86_64, Arch
from tracer.kinds.site import ArgSpec, Global, GlobalPointer
from tracer.resolve.usdt.operands import parse
from tracer.resolve.usdt.words import words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-4@%edi", "signed 4 bytes in edi"),
        ("8@-24(%rbp)", "8 bytes at rbp-24"),
        ("8@%rax", "8 bytes in rax"),
        ("-2@%ax", "signed 2 bytes in ax"),
        ("1@%al", "1 byte in al"),
        ("1@%sil", "1 byte in sil"),
        ("-1@%r9b", "signed 1 byte in r9b"),
        ("2@%r10w", "2 bytes in r10w"),
        ("4@%r8d", "4 bytes in r8d"),
        ("8@%r15", "8 bytes in r15"),
        ("4@%bpl", "4 bytes in ebp"),
        ("8@(%rdi,%rsi,8)", "8 bytes at rdi+rsi*8"),
        ("8@16(%rdi,%rsi)", "8 bytes at rdi+rsi+16"),
        ("-4@$-7", "signed 4 bytes, always -7"),
        ("1@$-56", "1 byte, always 200"),
        ("8f@-8(%rbp)", "float of 8 bytes at rbp-8"),
        ("8f@%xmm0", "cannot be read: %xmm0 is a vector or floating-point register, which the kernel does not save at a"
         " probe"),
    ],
)  # fmt: skip
def test_of_x86(text: str, said: str) -> None:
    assert words(_spec(text, X86_64), X86_64) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-4@w1", "signed 4 bytes in w1"),
        ("8@x20", "8 bytes in x20"),
        ("-4@[sp, 12]", "signed 4 bytes at sp+12"),
        ("8@[x0]", "8 bytes at x0"),
    ],
)
def test_of_aarch64(text: str, said: str) -> None:
    assert words(_spec(text, AARCH64), AARCH64) == said


def test_of_what_has_a_place_in_the_file() -> None:
    slot = Global(0x4010, 0x3010, 0x10, "cx", 8)
    assert words(ArgSpec("-4@state(,%rcx,8)", 4, True, slot), X86_64) == (
        "signed 4 bytes at 0x4010+rcx*8 of the file, state(,%rcx,8)"
    )
    pointer = GlobalPointer(Global(0x4020, 0x3020, 0x20))
    assert words(ArgSpec("8@a\nb@GOTPCREL(%rip)", 8, False, pointer), X86_64) == (
        "8 bytes, the address that stands at 0x4020 of the file, a\\nb@GOTPCREL(%rip)"
    )


def _spec(text: str, arch: Arch) -> ArgSpec:
    (argument,) = parse(text, arch)
    operand = argument.operand
    return argument.spec(operand)  # type: ignore[arg-type]
