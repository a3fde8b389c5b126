"""Bytecode → text, one instruction a line, for people to read: as the kernel's verifier writes it."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_CLASSES = {0: "ld", 1: "ldx", 2: "st", 3: "stx", 4: "alu32", 5: "jmp", 6: "jmp32", 7: "alu64"}
_SIZES = {0x00: "u32", 0x08: "u16", 0x10: "u8", 0x18: "u64"}
_ALU = {
    0x00: "+=", 0x10: "-=", 0x20: "*=", 0x30: "/=", 0x40: "|=", 0x50: "&=", 0x60: "<<=", 0x70: ">>=", 0x90: "%=",
    0xA0: "^=", 0xB0: "=", 0xC0: "s>>=",
}  # fmt: skip
_JUMPS = {
    0x10: "==", 0x20: ">", 0x30: ">=", 0x40: "&", 0x50: "!=", 0x60: "s>", 0x70: "s>=", 0xA0: "<", 0xB0: "<=",
    0xC0: "s<", 0xD0: "s<=",
}  # fmt: skip
_NEGATE, _SWAP = 0x80, 0xD0
_ATOMIC, _FETCH = 0xC0, 0x01
_ATOMICS = {0x00: "+=", 0x40: "|=", 0x50: "&=", 0xA0: "^="}
_EXCHANGE, _COMPARE = 0xE1, 0xF1
_LD_IMM64 = 0x18

HELPERS = {
    1: "map_lookup_elem", 2: "map_update_elem", 3: "map_delete_elem", 5: "ktime_get_ns",
    7: "get_prandom_u32", 8: "get_smp_processor_id",
    14: "get_current_pid_tgid", 15: "get_current_uid_gid", 16: "get_current_comm", 35: "get_current_task",
    67: "get_stack", 80: "get_current_cgroup_id", 109: "send_signal",
    112: "probe_read_user", 113: "probe_read_kernel", 114: "probe_read_user_str",
    115: "probe_read_kernel_str", 117: "send_signal_thread", 118: "jiffies64", 120: "get_ns_current_pid_tgid",
    125: "ktime_get_boot_ns",
    130: "ringbuf_output", 131: "ringbuf_reserve", 132: "ringbuf_submit",
    148: "copy_from_user", 164: "for_each_map_elem", 158: "get_current_task_btf", 174: "get_attach_cookie",
    175: "task_pt_regs", 180: "find_vma", 181: "loop",
}  # fmt: skip
"""The helpers that the headers of bpf_programs declare, by their number in include/uapi/linux/bpf.h."""


def count(code: bytes) -> int:
    """The number of instructions: one that loads 64 bits takes two places, and is one."""
    return sum(1 for _ in _instructions(code))


def disassemble(code: bytes, constants: Mapping[int, str] | None = None) -> list[str]:
    """The text of a program, a line for each instruction, behind its place. `constants` names 64-bit ones (`MAP(0)` in
    prelude.h).
    """
    names = constants or {}
    return [f"{instruction[0]:3d}: {_spelled(*instruction, names)}" for instruction in _instructions(code)]


def _instructions(code: bytes) -> list[tuple[int, int, int, int, int, int]]:
    """Place, opcode, destination, source, offset, constant."""
    instructions = []
    slot = 0
    while slot < len(code) // 8:
        opcode, registers, offset, constant = struct.unpack_from("=BBhi", code, 8 * slot)
        place = slot
        if opcode == _LD_IMM64:
            high: int = struct.unpack_from("=I", code, 8 * slot + 12)[0]
            constant = constant & 0xFFFF_FFFF | high << 32
            slot += 1
        instructions.append((place, opcode, registers & 15, registers >> 4, offset, constant))
        slot += 1
    return instructions


def _spelled(
    slot: int, opcode: int, to: int, source: int, offset: int, constant: int, names: Mapping[int, str]
) -> str:
    kind, operation = _CLASSES[opcode & 7], opcode & 0xF0
    other = f"r{source}" if opcode & 8 else f"{constant:#x}" if abs(constant) > 0xFFFF else f"{constant}"
    place = _place(to, offset)
    match kind:
        case "ld":
            return f"r{to} = {names.get(constant, f'{constant:#x}')} ll"
        case "ldx":
            signed = "s" if opcode & 0xE0 == 0x80 else "u"
            return f"r{to} = *({signed}{_SIZES[opcode & 0x18][1:]} *)({_place(source, offset)})"
        case "st":
            return f"*({_SIZES[opcode & 0x18]} *)({place}) = {constant}"
        case "stx" if opcode & 0xE0 == _ATOMIC:
            return _atomic(opcode, place, source, constant)
        case "stx":
            return f"*({_SIZES[opcode & 0x18]} *)({place}) = r{source}"
        case "alu32" | "alu64":
            letter = "w" if kind == "alu32" else "r"
            if operation == _NEGATE:
                return f"{letter}{to} = -{letter}{to}"
            if operation == _SWAP:
                return f"r{to} = {'be' if opcode & 8 else 'le'}{constant} r{to}"
            return f"{letter}{to} {_ALU[operation]} {other if not opcode & 8 else letter + str(source)}"
        case _:
            return _jump(slot, opcode, to, source, offset, constant)


def _jump(slot: int, opcode: int, to: int, source: int, offset: int, constant: int) -> str:
    operation = opcode & 0xF0
    if operation == 0x80:
        return f"call {HELPERS.get(constant, '')}#{constant}"
    if operation == 0x90:
        return "exit"
    if operation == 0x00:
        return f"goto {slot + 1 + offset}"
    letter = "w" if opcode & 7 == 6 else "r"
    other = f"{letter}{source}" if opcode & 8 else f"{constant}"
    return f"if {letter}{to} {_JUMPS[operation]} {other} goto {slot + 1 + offset}"


def _atomic(opcode: int, place: str, source: int, operation: int) -> str:
    memory = f"*({_SIZES[opcode & 0x18]} *)({place})"
    if operation == _EXCHANGE:
        return f"r{source} = atomic_xchg({memory}, r{source})"
    if operation == _COMPARE:
        return f"r0 = atomic_cmpxchg({memory}, r0, r{source})"
    added = f"lock {memory} {_ATOMICS[operation & 0xF0]} r{source}"
    return f"r{source} = atomic_fetch({added})" if operation & _FETCH else added


def _place(register: int, offset: int) -> str:
    return f"r{register} {'+' if offset >= 0 else '-'} {abs(offset)}"
