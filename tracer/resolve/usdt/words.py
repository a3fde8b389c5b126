"""The place of an argument in words: `signed 4 bytes in edi`, `8 bytes at rbp-24`."""

from __future__ import annotations

from tracer.errors import printable
from tracer.kinds.arch import AARCH64, Arch
from tracer.kinds.site import ArgSpec, Const, Global, GlobalPointer, Mem, Reg, Unreadable

_NARROW = {8: "r{}", 4: "e{}", 2: "{}", 1: "{}l"}
"""Names of the old registers of x86 by their size, those that end in x without it for one byte."""


def words(arg: ArgSpec, arch: Arch) -> str:
    """An argument's type, and its place."""
    size = "1 byte" if arg.size == 1 else f"{arg.size} bytes"
    kind = f"float of {size}" if arg.is_float else f"signed {size}" if arg.signed else size
    operand = arg.operand
    match operand:
        case Const():
            return f"{kind}, always {_cut(operand.value, arg.size, arg.signed)}"
        case Reg():
            return f"{kind} in {register(operand.name, arg.size, arch)}"
        case Mem():
            return f"{kind} at {_address(operand, arch)}"
        case Global():
            return f"{kind} at {_place(operand, arch)} of the file, {printable(arg.text.partition('@')[2])}"
        case GlobalPointer():
            name = printable(arg.text.partition("@")[2])
            return f"{kind}, the address that stands at {_place(operand.slot, arch)} of the file, {name}"
        case Unreadable():
            return f"cannot be read: {operand.reason}"
        case _:
            raise AssertionError(f"{operand} is in no note")


def register(name: str, size: int, arch: Arch) -> str:
    """A register as the assembler writes it for so many bytes; by pt_regs' name."""
    if arch is AARCH64:
        return f"w{name[1:]}" if size < 8 and name[:1] == "x" else name
    if name[1:].isdigit():  # r8 to r15
        return name + {8: "", 4: "d", 2: "w", 1: "b"}[size]
    if size == 1 and name.endswith("x"):
        return f"{name[0]}l"
    return _NARROW[size].format(name)


def _cut(value: int, size: int, signed: bool) -> int:
    value &= (1 << 8 * size) - 1
    return value - (1 << 8 * size) if signed and value >> (8 * size - 1) else value


def _address(operand: Mem, arch: Arch) -> str:
    def whole(name: str) -> str:
        return register(name, arch.word, arch)

    parts = [whole(operand.base)] if operand.base is not None else []
    if operand.index is not None:
        parts.append(whole(operand.index) + (f"*{operand.scale}" if operand.scale != 1 else ""))
    text = "+".join(parts)
    if not text:
        return f"address {operand.disp:#x}"
    return text + (f"{operand.disp:+d}" if operand.disp else "")


def _place(operand: Global, arch: Arch) -> str:
    if operand.index is None:
        return f"{operand.address:#x}"
    scale = f"*{operand.scale}" if operand.scale != 1 else ""
    return f"{operand.address:#x}+{register(operand.index, arch.word, arch)}{scale}"
