"""Debug information itself states where a parameter is at the first instruction of a function.

LLVM changes how a function is called that only its own file calls, or with -flto its own program: it leaves out what
is unused or a constant, and all that follows moves up. No name tells that it did. So of such functions nothing else is
believed.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracer.kinds.arch import Arch
from tracer.resolve.dwarf.calls.arguments import ParameterPlace, Pieces, words
from tracer.resolve.dwarf.functions import origins
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.ranges import location_at
from tracer.resolve.dwarf.units.unit import Entry

_REGISTERS = {
    62: ("ax", "dx", "cx", "bx", "si", "di", "bp", "sp", *(f"r{number}" for number in range(8, 16))),
    183: tuple(f"x{number}" for number in range(31)),
}
"""The names of DWARF's registers from 0 on, by the machine number of the ELF header."""

_REG, _BREG, _PIECE = 0x50, 0x70, 0x93  # DW_OP_reg0, DW_OP_breg0, DW_OP_piece
_FBREG = b"\x91"
_ELSEWHERE = "the compiler may have changed how it is passed, and debug information does not say where it is"


def is_llvms(function: Entry) -> bool:
    """Whether LLVM made a function. A caller in the same file passes it nothing of use for a parameter that it does not
    use, even where others can call it; such a parameter has no place in debug information then.
    """
    producer = function.unit.top.text(dw.PRODUCER)
    return "clang" in producer or "rustc" in producer


def convention_number(function: Entry) -> int:
    """DW_AT_calling_convention: what the programmer wrote, but where LLVM has changed the function."""
    conventions = (entry.number(dw.CALLING_CONVENTION) for entry in origins(function))
    return next((convention for convention in conventions if convention is not None), dw.NORMAL)


def describes_calls(function: Entry) -> bool:
    """Whether debug information describes the calls in a function, as LLVM writes it of what it has optimised."""
    return dw.ALL_CALLS in function or dw.GNU_ALL_CALLS in function


def is_optimised(function: Entry, parameters: Iterable[Entry]) -> bool:
    """Whether LLVM has optimised a function: its calls are described, or a parameter's place is not always the same."""
    return describes_calls(function) or any(parameter.block(dw.LOCATION) is None for parameter in parameters)


def is_moved(function: Entry, local: bool, direct: Iterable[Entry]) -> bool:
    """Whether a function may be called in another way: LLVM made it, has optimised it, and it is one of its file alone
    (`local`). New versions say so of the function (seen in rustc 1.95). `direct` are the parameters that are passed as
    they are.
    """
    if not is_llvms(function):
        return False
    return convention_number(function) == dw.NO_CALL or (local and is_optimised(function, direct))


def is_in_frame(entry: Entry) -> bool:
    """Whether a parameter lies in its function's own frame all the time, so that no caller has given its address."""
    expression = entry.block(dw.LOCATION) or b""
    return expression[:1] == _FBREG and leb(expression, 1)[1] == len(expression)


def register_of(entry: Entry, start: int, arch: Arch) -> int | None:
    """The number of the argument's register that holds a parameter at the function's start, if that is stated."""
    expression = location_at(entry, start)
    return _number(expression[0], _REG, arch) if expression and len(expression) == 1 else None


def stated(entry: Entry, start: int, arch: Arch, by_rule: ParameterPlace, size: int) -> ParameterPlace:
    """The place of a parameter of a function whose calls LLVM may have changed. `by_rule` is how the convention passes
    it.
    """
    expression = location_at(entry, start) or b""
    if by_rule.indirect:
        number = _number(expression[0], _BREG, arch) if len(expression) == 2 and not expression[1] else None
        if number is None:
            return ParameterPlace(reason=_ELSEWHERE)
        return ParameterPlace(((0, 8, number, 0),), indirect=True)
    pieces: Pieces = ()
    position = offset = 0
    while position < len(expression):
        number = None if expression[position] == _PIECE else _number(expression[position], _REG, arch)
        if expression[position] != _PIECE and number is None:
            return ParameterPlace(reason=_ELSEWHERE)
        position += number is not None
        part, position = leb(expression, position + 1) if position < len(expression) else (size, position)
        if number is not None:
            pieces += tuple((offset + byte, width, one, bit) for byte, width, one, bit in words(min(part, 8), number))
        offset += part
    covered = {byte for start, part, *_ in pieces for byte in range(start, start + part)}
    wanted = {byte for start, part, *_ in by_rule.pieces for byte in range(start, start + part)} or set(range(size))
    return ParameterPlace(pieces) if wanted <= covered else ParameterPlace(reason=_ELSEWHERE)


def _number(operation: int, first: int, arch: Arch) -> int | None:
    registers = _REGISTERS[arch.machine]
    name = registers[operation - first] if 0 <= operation - first < len(registers) else ""
    return arch.args.index(name) if name in arch.args else None
