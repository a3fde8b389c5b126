"""Rules from the code of functions: as the tables of a compiler say, and by hand for what none would write."""

from __future__ import annotations

import platform
from itertools import pairwise

import pytest

from tests.unit.resolve.conftest import Build
from tracer.kinds.arch import EM_X86_64
from tracer.resolve.elf.file import Elf
from tracer.resolve.elf.symbols import Symbols
from tracer.resolve.safety.disassembly import decode
from tracer.resolve.symbols.modules import Module
from tracer.resolve.symbols.untabled import begins_frame, rule_of, step_in
from tracer.resolve.unwind.rules import OFFSET, UNDEFINED
from tracer.resolve.unwind.unwind_tables import Tables
from tracer.resolve.unwind.walker import BROKEN

SP, FP, IP = 7, 6, 16

PROGRAM = r"""
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct big { char bytes[200]; };
__attribute__((noinline)) int leaf(int n) { asm volatile(""); return n + 1; }
__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h, struct big i)
{
    int sum = leaf(a) + leaf(b) + leaf(c);
    for (int n = 0; n < d; n++) sum += leaf(n) * leaf(e) + i.bytes[n];
    if (sum > f) return leaf(g);
    switch (sum) { case 1: return leaf(2); case 2: return leaf(h); case 3: puts("three"); }
    return sum + leaf(sum);
}
__attribute__((noinline)) int room(int n)
{
    char *at = alloca(n);
    memset(at, n, n);
    int found = leaf(at[3]);
    for (int i = 0; i < n; i++) found += leaf(at[i]);
    return found;
}
__attribute__((noinline)) int early(char *text)
{
    if (!text) return leaf(3);
    char local[300];
    int size = snprintf(local, sizeof local, "%s %s", text, text);
    if (size > 100) { puts(local); abort(); }
    return size + leaf(size);
}
int main(int argc, char **argv)
{
    struct big big = {{1}};
    return many(1, 2, 3, argc, 5, 6, 7, 8, big) + room(argc) + early(argv[1]);
}
"""


FLAGS = [("-O0",), ("-O1",), ("-O2", "-fomit-frame-pointer"), ("-Os",), ("-O2", "-mno-red-zone")]


@pytest.mark.parametrize("flags", FLAGS)
def test_behind_each_call_it_is_what_the_compiler_says(build: Build, flags: tuple[str, ...]) -> None:
    with Elf(str(build(PROGRAM, *flags, "-fno-stack-clash-protection", name="calls"))) as elf:
        tables, compared = Tables(elf), 0
        for name in ("leaf", "many", "room", "early", "main"):
            (function,) = Symbols(elf).named(name)
            code = elf.memory(function.address, function.size, "a function") or b""
            instructions = decode(code, function.address, EM_X86_64)
            for call, behind in pairwise(instructions):
                wanted = tables.rule(behind.address)
                if not call.calls or wanted is None:
                    continue
                found = rule_of(code, function.address, behind.address)
                if found is None:  # only a table of jumps leads there
                    continue
                compared += 1
                if found.register == wanted.register:
                    assert found.offset == wanted.offset, (name, hex(behind.address))
                # One that was saved and not yet changed is still in its register too.
                assert found.saved.get(FP) in (wanted.saved.get(FP), None), (name, hex(behind.address))
        assert compared >= 15


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("push %rbx; mov %edi, %ebx; call out; HERE", (SP, 16, None)),
        ("push %rbp; HERE mov %rsp, %rbp", (SP, 16, None)),
        ("endbr64; push %rbp; mov %rsp, %rbp; push %rbx; sub $0x88, %rsp; call out; HERE", (SP, 160, (OFFSET, -16))),
        ("push %rbp; mov %rsp, %rbp; and $-64, %rsp; sub $64, %rsp; call out; HERE", (FP, 16, (OFFSET, -16))),
        ("push %rbp; mov %rsp, %rbp; sub %rdi, %rsp; call out; leave; HERE", (SP, 8, None)),
        ("push %rbp; mov $1, %ebp; call out; HERE pop %rbp; ret", (SP, 16, (OFFSET, -16))),
        ("push %rbp; mov $1, %ebp; call out; pop %rbp; HERE", (SP, 8, None)),
        ("sub $0x18, %rsp; mov %rbp, 8(%rsp); xor %ebp, %ebp; call out; HERE", (SP, 32, (OFFSET, -24))),
        ("xor %ebp, %ebp; call out; HERE", (SP, 8, (UNDEFINED, 0))),
        ("lea -0x28(%rsp), %rsp; call out; HERE", (SP, 48, None)),
        ("call 1f; 1: HERE pop %rax", (SP, 16, None)),
        ("test %edi, %edi; je 1f; push %rbx; call out; pop %rbx; ret; 1: HERE", (SP, 8, None)),
        ("test %edi, %edi; je 1f; push %rbx; 1: HERE", None),
        ("mov %rdi, %rsp; call out; HERE", None),
        ("push %rbp; enter $16, $0; call out; HERE", None),
        ("ret; HERE", None),
    ],
)
def test_rules_of_assembly(build: Build, code: str, rule: tuple[int, int, object] | None) -> None:
    text = code.replace("HERE", "here: .globl here; .type here, @function;")
    source = f'asm(".globl f; .type f, @function; f: {text}; nop; ret; .size f, . - f; out: ret");'
    with Elf(str(build(source, "-shared", "-nostdlib", name="f.so"))) as elf:
        symbols = Symbols(elf)
        (start,), (here,) = symbols.named("f"), symbols.named("here")
        found = rule_of(elf.memory(start.address, start.size, "code") or b"", start.address, here.address)
    if rule is None:
        assert found is None
    else:
        assert found is not None
        assert (found.register, found.offset, found.saved.get(FP)) == rule
        assert (found.saved[IP], found.signal, found.expression) == ((OFFSET, -8), False, None)


SETS_UP = bytes.fromhex("554889e5")


@pytest.mark.parametrize(
    ("code", "place"),
    [
        (SETS_UP + b"\xe8" + bytes(4), 0),
        (b"\x90" * 7 + bytes.fromhex("55488bec") + b"\xe8" + bytes(4), 7),
        (SETS_UP + b"\x5d\xc3\xcc\xcc\x53\xe8" + bytes(4), None),
        (SETS_UP + b"\x5d\xc3\x0f\x1f\x00\x53\xe8" + bytes(4), None),
        (b"\x53\xe8" + bytes(4), None),
        (b"", None),
    ],
)
def test_a_frame_is_set_up_in_the_same_function_or_not_at_all(code: bytes, place: int | None) -> None:
    assert begins_frame(code) == place


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the compiler has no -m32")
@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("push %ebx; mov %edi, %ebx; call out; HERE", (4, 8, None)),
        ("push %ebp; mov %esp, %ebp; push %ebx; sub $0x14, %esp; call out; HERE", (4, 32, (OFFSET, -8))),
        ("push %ebp; mov %esp, %ebp; and $-16, %esp; call out; HERE", (5, 8, (OFFSET, -8))),
        ("sub $0x18, %esp; call out; call out; HERE", (4, 28, None)),
        # One that takes its arguments away, as what returns a struct does: nothing is known of esp from then on.
        ("sub $0x18, %esp; call pops; HERE", (4, 28, None)),
        ("sub $0x18, %esp; call pops; nop; call out; HERE", None),
        ("push %ebp; mov %esp, %ebp; call pops; nop; call out; HERE", (5, 8, (OFFSET, -8))),
        ("pusha; call out; HERE", None),
    ],
)
def test_rules_of_32_bit_assembly(build: Build, code: str, rule: tuple[int, int, object] | None) -> None:
    text = code.replace("HERE", "here: .globl here; .type here, @function;")
    functions = "out: ret; .size out, . - out; pops: ret $4; .size pops, . - pops"
    kinds = ".type out, @function; .type pops, @function; .globl out; .globl pops;"
    source = f'asm("{kinds} .globl f; .type f, @function; f: {text}; nop; ret; .size f, . - f; {functions}");'
    flags = ("-m32", "-shared", "-nostdlib", "-Wl,-Bsymbolic")
    with Elf(str(build(source, *flags, name="f.so"))) as elf:
        module = Module(elf)
        (here,) = module.symbols.named("here")
        step = step_in(module, elf.offset_of(here.address - 1) or 0, exact=False)
    if rule is None:
        assert step.kind == BROKEN
    else:
        found = step.rule
        assert found is not None
        assert (found.register, found.offset, found.saved.get(5)) == rule
        assert found.saved[8] == (OFFSET, -4)
