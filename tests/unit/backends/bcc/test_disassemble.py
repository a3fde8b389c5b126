"""Bytecode as text: every form of instruction that libbcc has been seen to write, and what it writes now."""

from __future__ import annotations

import re
import struct

import pytest

from tests.golden.test_bcc import PROGRAMS
from tests.unit.backends.bcc.plans import plan_of, probe
from tracer.backends.bcc.codegen.generate import generate
from tracer.backends.bcc.compile.compiler import bpf_programs, compile_text
from tracer.backends.bcc.compile.disassemble import HELPERS, count, disassemble


def one(opcode: int, registers: int, offset: int = 0, constant: int = 0) -> str:
    (line,) = disassemble(struct.pack("=BBhi", opcode, registers, offset, constant))
    return line


@pytest.mark.parametrize(
    ("opcode", "registers", "offset", "constant", "text"),
    [
        (0xB7, 0x01, 0, 5, "r1 = 5"),
        (0xB4, 0x01, 0, -1, "w1 = -1"),
        (0xBF, 0xA2, 0, 0, "r2 = r10"),
        (0x07, 0x02, 0, -8, "r2 += -8"),
        (0x57, 0x01, 0, 0x7FFF0000, "r1 &= 0x7fff0000"),
        (0x1C, 0x21, 0, 0, "w1 -= w2"),
        (0x87, 0x03, 0, 0, "r3 = -r3"),
        (0xC7, 0x01, 0, 63, "r1 s>>= 63"),
        (0xDC, 0x01, 0, 16, "r1 = be16 r1"),
        (0x79, 0x61, 80, 0, "r1 = *(u64 *)(r6 + 80)"),
        (0x71, 0x61, -1, 0, "r1 = *(u8 *)(r6 - 1)"),
        (0x63, 0x1A, -4, 0, "*(u32 *)(r10 - 4) = r1"),
        (0x7A, 0x0A, -8, 7, "*(u64 *)(r10 - 8) = 7"),
        (0xDB, 0x10, 0, 0x00, "lock *(u64 *)(r0 + 0) += r1"),
        (0xDB, 0x10, 0, 0x01, "r1 = atomic_fetch(lock *(u64 *)(r0 + 0) += r1)"),
        (0xDB, 0x16, 8, 0xF1, "r0 = atomic_cmpxchg(*(u64 *)(r6 + 8), r0, r1)"),
        (0x85, 0x00, 0, 1, "call map_lookup_elem#1"),
        (0x05, 0x00, 3, 0, "goto 4"),
        (0x15, 0x00, 2, 0, "if r0 == 0 goto 3"),
        (0x6D, 0x21, -2, 0, "if r1 s> r2 goto -1"),
        (0x95, 0x00, 0, 0, "exit"),
    ],
)
def test_an_instruction_reads_so(opcode: int, registers: int, offset: int, constant: int, text: str) -> None:
    assert one(opcode, registers, offset, constant) == f"  0: {text}"


def test_a_constant_of_64_bits_is_one_instruction_of_two_places_and_may_have_a_name() -> None:
    code = struct.pack("=BBhiBBhi", 0x18, 1, 0, 3, 0, 0, 0, 0x1234) + bytes.fromhex("9500000000000000")
    assert count(code) == 2
    assert disassemble(code) == ["  0: r1 = 0x123400000003 ll", "  2: exit"]
    assert disassemble(code, {0x1234_0000_0003: "map @"}) == ["  0: r1 = map @ ll", "  2: exit"]


def test_every_helper_of_the_headers_has_its_name() -> None:
    headers = "".join(header.read_text() for header in bpf_programs().glob("*.h"))
    assert {int(number) for number in re.findall(r"= \(void \*\)(\d+);", headers)} == HELPERS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_whatever_programs_consist_of_has_words(name: str) -> None:
    code = compile_text(generate(plan_of(probe(PROGRAMS[name]))).text, sleepable=True)["probe_0"]
    lines = disassemble(code)
    wide = sum(line.endswith(" ll") for line in lines)
    assert len(lines) == count(code) == len(code) // 8 - wide
    assert lines[0].startswith("  0: ") and any(line.endswith(": exit") for line in lines)
