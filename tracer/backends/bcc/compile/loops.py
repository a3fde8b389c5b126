"""Loops that are closed by falling through: not taken by older verifiers.

Where clang puts the end of a loop right before its head, no jump leads from one to the other. Linux 6.1 refuses that
before it looks at anything else ("back-edge from insn 270 to 271", Invalid argument: check_cfg allows a way back at
jumps alone); 6.12 takes it. A jump to the next instruction between the two makes it a loop that both take; the kernel
drops such jumps once a program is verified.
"""

from __future__ import annotations

import struct

_JUMP, _JUMP32, _JA, _CALL, _EXIT = 5, 6, 0x00, 0x80, 0x90
_GO_ON = struct.pack("=BBhi", _JUMP | _JA, 0, 0, 0)

_Edge = tuple[int, bool]
"""The target, and whether a jump leads there."""


def closed_by_jumps(code: bytes) -> bytes:
    """The program with a jump at the end of each loop. Every path through it must end in an exit."""
    while (heads := _fallen_into(code)) != ():
        for head in sorted(heads, reverse=True):
            code = _with_jump_before(code, head)
    return code


def _fallen_into(code: bytes) -> tuple[int, ...]:
    """The instructions to which some way leads back by falling through, as the kernel's depth-first walk finds them."""
    heads: set[int] = set()
    edges = _edges(code)
    under_way, done = {0}, set()
    stack = [(0, iter(edges[0]))]
    while stack:
        slot, ways = stack[-1]
        for to, jumps in ways:
            if to in under_way:
                if not jumps:
                    heads.add(to)
            elif to not in done:
                under_way.add(to)
                stack.append((to, iter(edges[to])))
                break
        else:
            stack.pop()
            under_way.discard(slot)
            done.add(slot)
    return tuple(heads)


def _edges(code: bytes) -> list[list[_Edge]]:
    """The edges from each slot of eight bytes to the slots that may come next, that of falling through first."""
    edges: list[list[_Edge]] = []
    for slot in range(len(code) // 8):
        opcode, _, offset, _ = struct.unpack_from("=BBhi", code, 8 * slot)
        operation = opcode & 0xF0
        if opcode & 7 not in (_JUMP, _JUMP32) or operation == _CALL:
            edges.append([(slot + 1, False)])
        elif operation == _EXIT:
            edges.append([])
        elif operation == _JA:
            edges.append([(slot + 1 + offset, True)])
        else:
            edges.append([(slot + 1, True), (slot + 1 + offset, True)])
    return edges


def _with_jump_before(code: bytes, head: int) -> bytes:
    """Puts an instruction before `head`, which only what falls through meets: jumps to `head` still go there."""
    moved = bytearray(code)
    for slot in range(len(code) // 8):
        opcode, registers, offset, constant = struct.unpack_from("=BBhi", code, 8 * slot)
        if opcode & 7 in (_JUMP, _JUMP32) and opcode & 0xF0 not in (_CALL, _EXIT):
            to = slot + 1 + offset
            offset += (to >= head) - (slot >= head)
            struct.pack_into("=BBhi", moved, 8 * slot, opcode, registers, offset, constant)
    return bytes(moved[: 8 * head]) + _GO_ON + bytes(moved[8 * head :])
