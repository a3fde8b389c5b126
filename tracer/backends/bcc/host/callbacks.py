"""A program and the functions that the kernel calls back from it, as one: `for` over a map, and loops of many rounds.

libbcc compiles each function by itself and links none. So the function that runs for each element of a map (`walk` in
prelude.h), or for each round of a loop (`repeat`), is put behind the program here, and the constant that stands for it
becomes its place.

The kernel calls the first with the map, the key, the value and what `walk` was given (bpf_for_each_map_elem, Linux
5.13), but libbcc takes functions of one argument alone. So key and value are first stored where that argument points,
in a struct that begins with them. The second it calls with the number of the round and what `repeat` was given
(bpf_loop, Linux 5.17), and the number is stored likewise: of a count that the function kept itself the verifier would
know each value, and go through all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Literal

TAG = 0xFEED_FAC9
"""The high half of the constant that stands for a function (`EACH` in prelude.h)."""

_STEP = 3
_LD_IMM64, _FUNCTION, _CALL = 0x18, 4 << 4, 0x85
_COPY_FROM_USER, _PROBE_READ_USER = 148, 112

_STORE = bytes.fromhex("7b24000000000000" "7b34080000000000" "bf41000000000000")
"""*(u64 *)(r4 + 0) = r2; *(u64 *)(r4 + 8) = r3; r1 = r4."""


_NUMBER = bytes.fromhex("7b12000000000000" "bf21000000000000")
"""*(u64 *)(r2 + 0) = r1; r1 = r2."""

Kind = Literal["each", "round", "quick"]
"""What is called back: for each element of a map; for each round of a loop; that of a loop inside the first."""


def name_of(function: str, kind: Kind, number: int) -> str:
    """The name of one of the functions that are called back from a function."""
    return f"{function}_{kind}_{number}"


def called_back(name: str, compiled: Mapping[str, bytes]) -> dict[int, bytes]:
    """The functions that the kernel calls back from a function, in the form that it calls, by their numbers."""
    functions: dict[int, bytes] = {}
    while True:
        number = len(functions)
        if (code := compiled.get(name_of(name, "each", number))) is not None:
            functions[number] = for_element(code)
        elif (code := compiled.get(name_of(name, "round", number))) is not None:
            functions[number] = for_round(code)
        elif (code := compiled.get(name_of(name, "quick", number))) is not None:
            functions[number] = for_round(_without_waiting(code))
        else:
            return functions


def for_element(code: bytes) -> bytes:
    """A function that `walk` can call."""
    return _STORE + _without_waiting(code)


def for_round(code: bytes) -> bytes:
    """A function that `repeat` can call."""
    return _NUMBER + code


def uses(code: bytes, number: int) -> bool:
    """Whether a program has the function of that number called back."""
    tag, slots = struct.pack("=I", TAG), enumerate(struct.iter_unpack("=BBhi", code))
    return any(
        opcode == _LD_IMM64 and low == _STEP * number and code[8 * slot + 12 : 8 * slot + 16] == tag
        for slot, (opcode, _, _, low) in slots
    )


def joined(code: bytes, others: Mapping[int, bytes]) -> tuple[bytes, tuple[int, ...]]:
    """The program with those behind it, and the instruction where each of them begins; without any none is said."""
    if not others:
        return code, ()
    places: dict[int, int] = {}
    whole = bytearray(code)
    for number, other in others.items():
        places[number] = len(whole) // 8
        whole += other
    position = 0
    while position < len(whole):
        opcode, registers = whole[position], whole[position + 1]
        if opcode == _LD_IMM64:
            low, high = (struct.unpack_from("=I", whole, position + place)[0] for place in (4, 12))
            if high == TAG:
                away = places[low // _STEP] - position // 8 - 1
                struct.pack_into("=BBhi", whole, position, opcode, registers | _FUNCTION, 0, away)
                struct.pack_into("=I", whole, position + 12, 0)
            position += 8
        position += 8
    return bytes(whole), (0, *places.values())


def _without_waiting(code: bytes) -> bytes:
    """The kernel holds its lock of readers (RCU) while it walks a hash, and a program that waits for a page then would
    keep everybody else waiting: what is not in memory is not read.
    """
    quick = bytearray(code)
    for position in range(0, len(code), 8):
        opcode, registers, _, helper = struct.unpack_from("=BBhi", code, position)
        if (opcode, registers, helper) == (_CALL, 0, _COPY_FROM_USER):
            struct.pack_into("=i", quick, position + 4, _PROBE_READ_USER)
    return bytes(quick)
