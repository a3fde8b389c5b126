"""A program and the functions that the kernel calls back from it, as one: `for` over a map.

libbcc compiles each function by itself and links none. So the function that runs for each element of a map (`walk` in
prelude.h) is put behind the program here, and the constant that stands for it becomes its place.

The kernel calls it with the map, the key, the value and what `walk` was given (bpf_for_each_map_elem, Linux 5.13), but
libbcc takes functions of one argument alone. So key and value are first stored where that argument points, in a struct
that begins with them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

TAG = 0xFEED_FAC9
"""The high half of the constant that stands for a function (`EACH` in prelude.h)."""

_STEP = 3
_LD_IMM64, _FUNCTION, _CALL = 0x18, 4 << 4, 0x85
_COPY_FROM_USER, _PROBE_READ_USER = 148, 112

_STORE = bytes.fromhex("7b24000000000000" "7b34080000000000" "bf41000000000000")
"""*(u64 *)(r4 + 0) = r2; *(u64 *)(r4 + 8) = r3; r1 = r4."""


def name_of(function: str, number: int) -> str:
    """The name of one of the functions that are called back from a function."""
    return f"{function}_each_{number}"


def called_back(name: str, compiled: Mapping[str, bytes]) -> dict[int, bytes]:
    """Those of a function, by their numbers."""
    found: dict[int, bytes] = {}
    while (other := compiled.get(name_of(name, len(found)))) is not None:
        found[len(found)] = other
    return found


def joined(code: bytes, others: Mapping[int, bytes]) -> tuple[bytes, tuple[int, ...]]:
    """The program with those behind it, and the instruction where each of them begins; without any none is said."""
    if not others:
        return code, ()
    places: dict[int, int] = {}
    whole = bytearray(code)
    for number, other in others.items():
        places[number] = len(whole) // 8
        whole += _STORE + _without_waiting(other)
    at = 0
    while at < len(whole):
        opcode, registers = whole[at], whole[at + 1]
        if opcode == _LD_IMM64:
            low, high = (struct.unpack_from("=I", whole, at + place)[0] for place in (4, 12))
            if high == TAG:
                away = places[low // _STEP] - at // 8 - 1
                struct.pack_into("=BBhi", whole, at, opcode, registers | _FUNCTION, 0, away)
                struct.pack_into("=I", whole, at + 12, 0)
            at += 8
        at += 8
    return bytes(whole), (0, *places.values())


def _without_waiting(code: bytes) -> bytes:
    """The kernel holds its lock of readers (RCU) while it walks a hash, and a program that waits for a page then would
    keep everybody else waiting: what is not in memory is not read.
    """
    quick = bytearray(code)
    for at in range(0, len(code), 8):
        opcode, registers, _, helper = struct.unpack_from("=BBhi", code, at)
        if (opcode, registers, helper) == (_CALL, 0, _COPY_FROM_USER):
            struct.pack_into("=i", quick, at + 4, _PROBE_READ_USER)
    return bytes(quick)
