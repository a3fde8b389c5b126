"""The C that reads an argument from where a site keeps it."""

from __future__ import annotations

import platform

from tracer.backends.bcc.codegen.c import C, c_type, cast, literal, plain
from tracer.backends.bcc.codegen.function import CFunction
from tracer.backends.bcc.maps.element_bytes import wrap
from tracer.errors import TracerError
from tracer.kinds.arch import AARCH64, X86_64
from tracer.kinds.site import ArgSpec, Const, Global, GlobalPointer, Mem, Reg, Unreadable
from tracer.lang.types import IntType
from tracer.steps.values import Name

_X86_64 = {name: f"REGISTER({name})" for name in (*X86_64.registers, *X86_64.state)}
_AARCH64 = {
    **{name: f"REGISTER({name})" for name in ("sp", *AARCH64.state)},
    **{f"x{number}": f"REGISTER(regs[{number}])" for number in range(31)}, "ip": "REGISTER(pc)",
}  # fmt: skip
_REGISTERS = {"x86_64": _X86_64, "aarch64": _AARCH64}
_RETURN = {"x86_64": "ax", "aarch64": "x0"}


def register(name: str) -> C:
    """A register at the hit; a name that is none never reaches C."""
    registers = _REGISTERS.get(platform.machine(), _X86_64)
    if name not in registers:
        raise TracerError(f"there is no register {name} here")
    return C(registers[name], "u64")


def return_value() -> C:
    """The whole return register."""
    return register(_RETURN.get(platform.machine(), "ax"))


class _Registers:
    """The context of a probe on an instruction: the registers there. See `function.Context`."""

    struct = "pt_regs"
    result = 0
    stopped = False

    def argument(self, function: CFunction, index: int, name: Name) -> C:
        return _argument(function, index, name)

    def held_bytes(self, function: CFunction, index: int) -> C | None:
        return None


REGISTERS = _Registers()


def _argument(function: CFunction, index: int, name: Name) -> C:
    """`argN` at this variant's sites: a register as it is, what lies in memory as a variable."""
    spec = function.variant.args[index]
    word = c_type(name.type)
    match spec.operand:
        case Const(value=value):
            return literal(wrap(IntType(8 * spec.size, spec.signed), value), name.type)
        case Reg(name=place):
            return _extended(register(place), spec, word)
        case Mem():
            return cast(word, _memory(function, _mem_address(spec.operand, spec.word), spec, name))
        case Global():
            return cast(word, _memory(function, _global_address(spec.operand, spec.word), spec, name))
        case GlobalPointer(slot=slot):
            pointer = ArgSpec(spec.text, spec.word, False, slot, word=spec.word)
            return _extended(_memory(function, _global_address(slot, spec.word), pointer, name), spec, word)
        case Unreadable():
            function.leave_unreadable()
            return literal(0, name.type)
        case _:
            raise AssertionError(f"{spec.operand} is at no instruction")


def _extended(value: C, spec: ArgSpec, word: str) -> C:
    return cast(word, cast(c_type(IntType(8 * spec.size, spec.signed)), value))


def _mem_address(operand: Mem, word: int) -> str:
    terms = []
    if operand.base is not None:
        terms.append(f"{register(operand.base)}")
    if operand.index is not None:
        terms.append(f"{register(operand.index)} * {operand.scale:d}")
    if operand.disp or not terms:
        terms.append(plain(operand.disp) if operand.disp < 0 else f"{operand.disp:d}")
    # What 32 bits hold of the sum is the address: an index below 0 has no ones above.
    return " + ".join(terms) if word == 8 or operand.base == "sp" else f"(u32)({' + '.join(terms)})"


def _global_address(operand: Global, word: int) -> str:
    return _mem_address(Mem("ip", operand.site_delta, operand.index, operand.scale), word)


def _memory(function: CFunction, address: str, spec: ArgSpec, name: Name) -> C:
    value = function.declare(name.id, IntType(8 * spec.size, spec.signed), "0")
    function.reads_memory = True
    function.leave_unreadable(C(f"read_user(&{value}, {spec.size:d}, {address})"))
    return value
