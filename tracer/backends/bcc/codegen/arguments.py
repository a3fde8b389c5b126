"""Where a site keeps an argument → the C that reads it."""

from __future__ import annotations

import platform

from tracer.backends.bcc.codegen.frame import Frame, c_type, literal
from tracer.backends.bcc.maps.layout import wrap
from tracer.errors import TracerError
from tracer.lang.typed import Arg
from tracer.lang.types import IntType
from tracer.resolve.model import ArgSpec, Const, Global, GlobalPointer, Mem, Reg, Unreadable

_X86_64_NAMES = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", *(f"r{number}" for number in range(8, 16)))
_X86_64 = {name: f"REGISTER({name})" for name in _X86_64_NAMES}
_AARCH64_NAMES = {**{f"x{number}": f"regs[{number}]" for number in range(31)}, "sp": "sp", "ip": "pc"}
_AARCH64 = {name: f"REGISTER({member})" for name, member in _AARCH64_NAMES.items()}
_REGISTERS = {"x86_64": _X86_64, "aarch64": _AARCH64}
_RETURN = {"x86_64": "ax", "aarch64": "x0"}


def register(name: str) -> str:
    """A register at the hit; a name that is none never reaches C."""
    known = _REGISTERS.get(platform.machine(), _X86_64)
    if name not in known:
        raise TracerError(f"there is no register {name} here")
    return known[name]


def return_value() -> str:
    """The whole return register."""
    return register(_RETURN.get(platform.machine(), "ax"))


def argument(frame: Frame, expr: Arg) -> str:
    """`argN` at this variant's sites as an s64 or u64 expression. What lies in memory is read at its first use, since
    only then may a failure end the clause.
    """
    known = frame.known(("arg", expr.index))
    if known is not None:
        return known
    return frame.remember(("arg", expr.index), _read(frame, frame.variant.args[expr.index], expr))


def _read(frame: Frame, spec: ArgSpec, expr: Arg) -> str:
    word = c_type(expr.type)
    match spec.operand:
        case Const(value=value):
            return literal(wrap(IntType(8 * spec.size, spec.signed), value), expr.type)
        case Reg(name=name):
            return _extended(register(name), spec, word)
        case Mem():
            return f"({word}){_memory(frame, _mem_address(spec.operand), spec, expr.index)}"
        case Global():
            return f"({word}){_memory(frame, _global_address(spec.operand), spec, expr.index)}"
        case GlobalPointer(slot=slot):
            pointer = ArgSpec(spec.text, 8, False, slot)
            return _extended(_memory(frame, _global_address(slot), pointer, expr.index), spec, word)
        case Unreadable():
            frame.line(frame.leave_unreadable())
            return literal(0, expr.type)


def _extended(value: str, spec: ArgSpec, word: str) -> str:
    kind = _kind(spec)
    return f"({word}){value}" if kind == word else f"({word})({kind}){value}"


def _kind(spec: ArgSpec) -> str:
    return c_type(IntType(8 * spec.size, spec.signed))


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
    name = frame.temporary(_kind(spec), "0", f"arg{index}_")
    frame.reads_memory = True
    frame.line(f"if (read_user(&{name}, {spec.size:d}, {address}))")
    frame.line("\t" + frame.leave_unreadable())
    return name
