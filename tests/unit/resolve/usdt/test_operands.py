"""Every operand form known, with what it means written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tracer.kinds.arch import AARCH64, X86_64, Arch
from tracer.kinds.site import Const, Mem, Reg, Unreadable
from tracer.resolve.usdt.operands import Parsed, SymbolAddress, SymbolMemory, parse

# text, size, signed, operand
X86_READABLE: list[tuple[str, int, bool, Parsed]] = [
    ("-4@$0", 4, True, Const(0)),
    ("8@$1234", 8, False, Const(1234)),
    ("8@$9223372036854775806", 8, False, Const((1 << 63) - 2)),
    ("8@$18446744073709551614", 8, False, Const((1 << 64) - 2)),
    ("-8@$-1", 8, True, Const(-1)),
    ("4@$71", 4, False, Const(71)),
    ("8@$-579005069656919568", 8, False, Const(-579005069656919568)),
    ("-4@$-202182160", 4, True, Const(-202182160)),
    ("2@$-3600", 2, False, Const(-3600)),
    ("1@$-16", 1, False, Const(-16)),
    ("-1@$-16", 1, True, Const(-16)),
    ("4@$0x10", 4, False, Const(16)),
    ("%rdi", 8, False, Reg("di")),
    ("%rax", 8, False, Reg("ax")),
    ("-8@%rbx", 8, True, Reg("bx")),
    ("4@%r12", 4, False, Reg("r12")),
    ("-4@%eax", 4, True, Reg("ax")),
    ("2@%ax", 2, False, Reg("ax")),
    ("-2@%r13w", 2, True, Reg("r13")),
    ("1@%al", 1, False, Reg("ax")),
    ("1@%dil", 1, False, Reg("di")),
    ("-1@%r15b", 1, True, Reg("r15")),
    ("-4@%r8d", 4, True, Reg("r8")),
    ("1@%eax", 1, False, Reg("ax")),
    ("8@%rip", 8, False, Reg("ip")),
    ("8@-8(%rbp)", 8, False, Mem("bp", -8)),
    ("4@(%rax)", 4, False, Mem("ax", 0)),
    ("8@(%rsp)", 8, False, Mem("sp", 0)),
    ("-4@-1204(%rbp)", 4, True, Mem("bp", -1204)),
    ("8@0x20(%r9)", 8, False, Mem("r9", 32)),
    ("8@16+8(%rsp)", 8, False, Mem("sp", 24)),
    ("8@(%rax,%rdx,8)", 8, False, Mem("ax", 0, "dx", 8)),
    ("4@(%rbx,%rcx)", 4, False, Mem("bx", 0, "cx", 1)),
    ("1@-96(%rbp,%rax,8)", 1, False, Mem("bp", -96, "ax", 8)),
    ("1@(%rbp,%rax,8)", 1, False, Mem("bp", 0, "ax", 8)),
    ("1@-96(%rbp,%rax)", 1, False, Mem("bp", -96, "ax", 1)),
    ("-4@4(%rsp,%rax,8)", 4, True, Mem("sp", 4, "ax", 8)),
    ("-1@3(%r9,%r12)", 1, True, Mem("r9", 3, "r12", 1)),
    ("-4@0(%rbp,%rax)", 4, True, Mem("bp", 0, "ax", 1)),
    ("8@0(%rbp,%rdx,8)", 8, False, Mem("bp", 0, "dx", 8)),
    ("8@64(,%rcx,8)", 8, False, Mem(None, 64, "cx", 8)),
    ("8@6295616", 8, False, Mem(None, 6295616)),
    ("-4@global_max_action(%rip)", 4, True, SymbolMemory("global_max_action", 0, True)),
    ("8@24+mp_(%rip)", 8, False, SymbolMemory("mp_", 24, True)),
    ("-4@CheckpointStats+40(%rip)", 4, True, SymbolMemory("CheckpointStats", 40, True)),
    ("-4@40+CheckpointStats(%rip)", 4, True, SymbolMemory("CheckpointStats", 40, True)),
    ("4@glob-2(%rip)", 4, False, SymbolMemory("glob", -2, True)),
    ("-1@ti(%rip)", 1, True, SymbolMemory("ti", 0, True)),
    ("8@counter.0(%rip)", 8, False, SymbolMemory("counter.0", 0, True)),
    ("8@g_arr(,%rcx,8)", 8, False, SymbolMemory("g_arr", 0, False, None, "cx", 8)),
    ("8@g_arr+16(%rax,%rcx,4)", 8, False, SymbolMemory("g_arr", 16, False, "ax", "cx", 4)),
    ("4@table(%rax)", 4, False, SymbolMemory("table", 0, False, "ax")),
    ("4@plain", 4, False, SymbolMemory("plain", 0, False)),
    ("8@fn@GOTPCREL(%rip)", 8, False, SymbolMemory("fn", 0, True, got=True)),
    ("8@$g_int", 8, False, SymbolAddress("g_int", 0)),
    ("8@$g_int+8", 8, False, SymbolAddress("g_int", 8)),
]

X86_FLOATS: list[tuple[str, int, Parsed]] = [
    ("8f@%rsi", 8, Reg("si")),
    ("4f@%r9d", 4, Reg("r9")),
    ("8f@-48(%rsp)", 8, Mem("sp", -48)),
    ("4f@28(%rsp)", 4, Mem("sp", 28)),
    ("8f@(%rsp)", 8, Mem("sp", 0)),
    ("4f@%edx", 4, Reg("dx")),
    ("4f@g_st+28(%rip)", 4, SymbolMemory("g_st", 28, True)),
    ("8f@16+g_st(%rip)", 8, SymbolMemory("g_st", 16, True)),
    ("8f@.LC0(%rip)", 8, SymbolMemory(".LC0", 0, True)),
]

THREAD_LOCAL = "is a thread-local variable, whose place differs from thread to thread"
X86_UNREADABLE = [
    ("4@i%ra+1r", "the operand 'i%ra+1r' is not understood"),
    ("-4@%fs:tls_int@tpoff", f"it {THREAD_LOCAL}"),
    ("-4@%gs:16", f"it {THREAD_LOCAL}"),
    ("-4@x@tpoff(%rax)", f"x {THREAD_LOCAL}"),
    ("8@x@gottpoff(%rip)", f"x {THREAD_LOCAL}"),
    ("8@fn@PLT", "the operand 'fn@PLT' is not understood"),
    ("16@%xmm0", "it has 16 bytes, not 1, 2, 4 or 8"),
    ("8@%xmm0", "%xmm0 is a vector or floating-point register, which the kernel does not save at a probe"),
    ("8f@%xmm15", "%xmm15 is a vector or floating-point register, which the kernel does not save at a probe"),
    ("1@%ah", "%ah is the second byte of a register"),
    ("8@%rzz", "there is no register %rzz"),
    ("24@(%rax)", "it has 24 bytes, not 1, 2, 4 or 8"),
    ("3@%rax", "it has 3 bytes, not 1, 2, 4 or 8"),
    ("2f@%ax", "a floating-point number of 2 bytes is unknown"),
    ("8@(%rax,%rdx,3)", "the operand '(%rax,%rdx,3)' is not understood"),
    ("8@(%eax)", "%eax cannot hold an address"),
    ("8@8(%rip)", "'8(%rip)' counts from an instruction that the note does not name"),
    ("8@$18446744073709551616", "the constant 18446744073709551616 has more than 64 bits"),
    ("8@$", "the operand '$' is not understood"),
    ("8@", "the operand '' is not understood"),
    ("8@a+b(%rip)", "the operand 'a+b(%rip)' is not understood"),
    ("8@4-a(%rip)", "the operand '4-a(%rip)' is not understood"),
    ("8@((%rax))", "the operand '((%rax))' is not understood"),
    ("99999999@%rax", "it has 99999999 bytes, not 1, 2, 4 or 8"),
    ("nonsense", "'nonsense' has no size"),
]

AARCH64_READABLE: list[tuple[str, int, bool, Parsed]] = [
    ("-1@x0", 1, True, Reg("x0")),
    ("-8@x4", 8, True, Reg("x4")),
    ("4@w3", 4, False, Reg("x3")),
    ("4@5", 4, False, Const(5)),
    ("-4@-3", 4, True, Const(-3)),
    ("-1@-1", 1, True, Const(-1)),
    ("8@xzr", 8, False, Const(0)),
    ("8@[x12]", 8, False, Mem("x12", 0)),
    ("-4@[x30,-40]", 4, True, Mem("x30", -40)),
    ("-4@[x31,-40]", 4, True, Mem("sp", -40)),
    ("8@[sp, 120]", 8, False, Mem("sp", 120)),
    ("8@[sp, #120]", 8, False, Mem("sp", 120)),
    ("-4@[sp]", 4, True, Mem("sp", 0)),
    ("-1@[x0, x1]", 1, True, Mem("x0", 0, "x1", 1)),
    ("8@[x0, x1, lsl 3]", 8, False, Mem("x0", 0, "x1", 8)),
]

AARCH64_UNREADABLE = [
    ("4@[x32,200]", "the operand '[x32,200]' is not understood"),
    ("8@[x0, w1, sxtw 2]", "the operand '[x0, w1, sxtw 2]' is not understood"),
    ("8@[x0, :lo12:sym]", "the operand '[x0, :lo12:sym]' is not understood"),
    ("8f@d0", "d0 is a vector or floating-point register, which the kernel does not save at a probe"),
    ("8@x32", "there is no register x32"),
]


def only(text: str, arch: Arch) -> tuple[str, int, bool, bool, Parsed]:
    (argument,) = parse(text, arch)
    return argument.text, argument.size, argument.signed, argument.is_float, argument.operand


@pytest.mark.parametrize(("text", "size", "signed", "operand"), X86_READABLE, ids=[row[0] for row in X86_READABLE])
def test_x86_operand(text: str, size: int, signed: bool, operand: Parsed) -> None:
    assert only(text, X86_64) == (text, size, signed, False, operand)


@pytest.mark.parametrize(("text", "size", "operand"), X86_FLOATS, ids=[row[0] for row in X86_FLOATS])
def test_x86_float(text: str, size: int, operand: Parsed) -> None:
    assert only(text, X86_64) == (text, size, False, True, operand)


@pytest.mark.parametrize(("text", "reason"), X86_UNREADABLE, ids=[row[0] for row in X86_UNREADABLE])
def test_x86_operand_that_cannot_be_read_says_why(text: str, reason: str) -> None:
    assert only(text, X86_64)[4] == Unreadable(reason)


@pytest.mark.parametrize(("text", "size", "signed", "operand"), AARCH64_READABLE, ids=[r[0] for r in AARCH64_READABLE])
def test_aarch64_operand(text: str, size: int, signed: bool, operand: Parsed) -> None:
    assert only(text, AARCH64) == (text, size, signed, False, operand)


@pytest.mark.parametrize(("text", "reason"), AARCH64_UNREADABLE, ids=[row[0] for row in AARCH64_UNREADABLE])
def test_aarch64_operand_that_cannot_be_read_says_why(text: str, reason: str) -> None:
    assert only(text, AARCH64)[4] == Unreadable(reason)


@pytest.mark.parametrize("text", ["", "  ", ":"])
def test_an_empty_string_holds_no_arguments(text: str) -> None:
    assert parse(text, X86_64) == ()


def test_a_bad_operand_costs_neither_those_before_nor_those_after_it() -> None:
    operands = [each.operand for each in parse("-4@%edi 4@i%ra+1r 8@-8(%rbp) 16@%xmm0 8@$1", X86_64)]
    assert operands == [
        Reg("di"),
        Unreadable("the operand 'i%ra+1r' is not understood"),
        Mem("bp", -8),
        Unreadable("it has 16 bytes, not 1, 2, 4 or 8"),
        Const(1),
    ]


def test_operands_are_split_only_where_the_next_one_begins() -> None:
    assert [each.text for each in parse("-4@[sp, 96] 8@[x0, x1, lsl 3] -4@x1", AARCH64)] == [
        "-4@[sp, 96]",
        "8@[x0, x1, lsl 3]",
        "-4@x1",
    ]
    assert [each.text for each in parse("%rdi %rax 8@fn@GOTPCREL(%rip)", X86_64)] == [
        "%rdi",
        "%rax",
        "8@fn@GOTPCREL(%rip)",
    ]


def test_nine_arguments_are_nine() -> None:
    text = "8@%rdi 4@%esi 8@%r14 4@%ebx 8@%r9 4@%r8d 8@-56(%rbp) 4@-60(%rbp) 1@-41(%rbp)"
    assert [each.size for each in parse(text, X86_64)] == [8, 4, 8, 4, 8, 4, 8, 4, 1]


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet="0123456789-@$%()+,.*fs:abrxidp_ []#", max_size=60), st.sampled_from([X86_64, AARCH64]))
def test_any_text_parses_to_something(text: str, arch: Arch) -> None:
    for argument in parse(text, arch):
        assert isinstance(argument.operand, Unreadable | Const | Reg | Mem | SymbolMemory | SymbolAddress)


def test_a_hostile_length_takes_no_time() -> None:
    assert len(parse("8@" + "(" * 1_000_000, X86_64)) == 1
    assert len(parse("8@%rdi " * 100_000, X86_64)) == 64
    assert len(parse("8@" + "1+" * 500_000 + "(%rip)", X86_64)) == 1
