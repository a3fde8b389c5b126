"""Loops that end by falling through get a jump; everything else stays as it is."""

from __future__ import annotations

import struct

from tracer.backends.bcc.compile.loops import closed_by_jumps

ZERO = struct.pack("=BBhi", 0xB7, 0, 0, 0)  # r0 = 0
ADD = struct.pack("=BBhi", 0x07, 0, 0, 1)  # r0 += 1
CALL = struct.pack("=BBhi", 0x85, 0, 0, 8)
EXIT = struct.pack("=BBhi", 0x95, 0, 0, 0)


def go(offset: int) -> bytes:
    return struct.pack("=BBhi", 0x05, 0, offset, 0)


def unless_ten(offset: int) -> bytes:
    return struct.pack("=BBhi", 0x55, 0, offset, 10)  # if r0 != 10 goto


def test_a_jump_goes_between_the_end_of_a_loop_and_its_head() -> None:
    # Entered at its head, which is the test; the end is before it.
    program = ZERO + go(1) + ADD + unless_ten(-2) + EXIT
    assert closed_by_jumps(program) == ZERO + go(2) + ADD + go(0) + unless_ten(-3) + EXIT


def test_jumps_over_the_new_one_reach_where_they_did() -> None:
    program = unless_ten(5) + ZERO + go(1) + CALL + unless_ten(-2) + go(-5) + EXIT
    wanted = unless_ten(6) + ZERO + go(2) + CALL + go(0) + unless_ten(-3) + go(-6) + EXIT
    assert closed_by_jumps(program) == wanted


def test_a_loop_within_another_gets_one_too() -> None:
    program = ZERO + go(3) + ADD + go(1) + ADD + unless_ten(-2) + unless_ten(-5) + EXIT
    once = closed_by_jumps(program)
    assert len(once) > len(program)
    assert closed_by_jumps(once) == once


def test_a_loop_that_ends_in_a_jump_stays_as_it_is() -> None:
    program = ZERO + ADD + unless_ten(-2) + EXIT
    assert closed_by_jumps(program) == program


def test_a_constant_of_two_slots_is_no_jump() -> None:
    # The second slot has no opcode; its number may look like anything.
    wide = struct.pack("=BBhi", 0x18, 1, 0, 0x05050505) + struct.pack("=BBhi", 0, 0, 0, 0x05050505)
    program = ZERO + go(3) + ADD + wide + unless_ten(-4) + EXIT
    assert closed_by_jumps(program) == ZERO + go(4) + ADD + wide + go(0) + unless_ten(-5) + EXIT
