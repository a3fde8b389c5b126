"""Where a site keeps an argument → the C that reads it."""

from __future__ import annotations

import platform

from tracer.backends.bcc.codegen.frame import Frame
from tracer.errors import TracerError
from tracer.resolve.model import ArgSpec, Const, Global, GlobalPointer, Mem, Reg, Unreadable

_X86_64_NAMES = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", *(f"r{number}" for number in range(8, 16)))
_X86_64 = {name: f"REGISTER({name})" for name in _X86_64_NAMES}
_AARCH64_NAMES = {**{f"x{number}": f"regs[{number}]" for number in range(31)}, "sp": "sp", "ip": "pc"}
_AARCH64 = {name: f"REGISTER({member})" for name, member in _AARCH64_NAMES.items()}
_REGISTERS = {"x86_64": _X86_64, "aarch64": _AARCH64}
_RETURN = {"x86_64": "ax", "aarch64": "x0"}

_SIGNED = {1: "s8", 2: "s16", 4: "s32", 8: "s64"}
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def register(name: str) -> str:
    """A register at the hit; a name that is none never reaches C."""
    known = _REGISTERS.get(platform.machine(), _X86_64)
    if name not in known:
        raise TracerError(f"there is no register {name} here")
    return known[name]


def return_value() -> str:
    """The whole return register."""
    return register(_RETURN.get(platform.machine(), "ax"))


def argument(frame: Frame, index: int) -> str:
    """`argN` at this variant's sites as a u64 expression. What lies in memory is read at its first use, since only then
    may a failure end the clause.
    """
    known = frame.known(("arg", index))
    if known is not None:
        return known
    return frame.remember(("arg", index), _read(frame, frame.variant.args[index], index))


def _read(frame: Frame, spec: ArgSpec, index: int) -> str:
    match spec.operand:
        case Const(value=value):
            return f"{_extended(value, spec)}ULL"
        case Reg(name=name):
            return _extend(register(name), spec)
        case Mem():
            return _memory(frame, _mem_address(spec.operand), spec, index)
        case Global():
            return _memory(frame, _global_address(spec.operand), spec, index)
        case GlobalPointer(slot=slot):
            pointer = ArgSpec(spec.text, 8, False, slot)
            return _extend(_memory(frame, _global_address(slot), pointer, index), spec)
        case Unreadable():
            frame.line(frame.leave_unreadable())
            return "0ULL"


def _extended(value: int, spec: ArgSpec) -> int:
    """A constant cut to the argument's size and extended to 64 bits, as a number without sign."""
    bits = 8 * spec.size
    value &= (1 << bits) - 1
    if spec.signed and value >> (bits - 1):
        value -= 1 << bits
    return value & 0xFFFF_FFFF_FFFF_FFFF


def _extend(value: str, spec: ArgSpec) -> str:
    if spec.size == 8:
        return f"(u64){value}"
    return f"(u64)(s64)({_SIGNED[spec.size]}){value}" if spec.signed else f"(u64)({_UNSIGNED[spec.size]}){value}"


def _mem_address(operand: Mem) -> str:
    terms = []
    if operand.base is not None:
        terms.append(register(operand.base))
    if operand.index is not None:
        terms.append(f"{register(operand.index)} * {operand.scale:d}")
    if operand.disp or not terms:
        terms.append(f"{operand.disp & 0xFFFF_FFFF_FFFF_FFFF:#x}ULL" if operand.disp < 0 else f"{operand.disp:d}")
    return " + ".join(terms)


def _global_address(operand: Global) -> str:
    terms = [register("ip"), f"{operand.site_delta & 0xFFFF_FFFF_FFFF_FFFF:#x}ULL"]
    if operand.index is not None:
        terms.append(f"{register(operand.index)} * {operand.scale:d}")
    return " + ".join(terms)


def _memory(frame: Frame, address: str, spec: ArgSpec, index: int) -> str:
    kind = (_SIGNED if spec.signed else _UNSIGNED)[spec.size]
    name = frame.temporary(kind, "0", f"arg{index}_")
    frame.reads_memory = True
    frame.line(f"if (read_user(&{name}, {spec.size:d}, {address}))")
    frame.line("\t" + frame.leave_unreadable())
    return f"(u64){name}" if spec.size == 8 else f"(u64)(s64){name}" if spec.signed else f"(u64){name}"
