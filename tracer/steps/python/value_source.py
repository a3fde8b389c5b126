"""Values as Python expressions: as the table of operations says, or by a function of more than the operands' texts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial

from tracer.lang.fixed_width import quotient, remainder
from tracer.lang.types import BoolType, IntType, StringType, memory_size, operations
from tracer.lang.types.operations import Operation
from tracer.steps.arithmetic import bounds, limits
from tracer.steps.python.source import Writer
from tracer.steps.values import Const, Name, Op, SiteText, Value


class PythonValues:
    """Prints the values of a clause. `names` are the local variables; `told` gives the values of `probe` and
    its like; `world` is the name of the runtime.
    """

    def __init__(self, writer: Writer, told: Callable[[str], bytes | int], world: str) -> None:
        self.writer = writer
        self.world = world
        self.names: dict[Name, str] = {}
        self._told = told

    def text(self, value: Value) -> str:
        """An expression that can stand anywhere as an operand."""
        match value:
            case Name():
                return self.names.get(value) or f"t{int(value.id)}"
            case Const(value=bytes() as constant):
                return self.writer.bind(constant, "text")
            case Const(value=bool() as truth):
                return "True" if truth else "False"
            case Const(value=number):
                number = int(number)
                return str(number) if number >= 0 else f"({number})"
            case SiteText(name=name):
                return self.writer.bind(self._told(name), "text")
        if (spelled := SPELLED.get(value.op)) is not None:
            return spelled(self, value)
        return self._filled(value.op, map(self.text, value.args))

    def _filled(self, op: Operation, args: Iterable[str]) -> str:
        if isinstance(op.python, str):
            return op.python.format(*args)
        return f"{self.writer.bind(op.python, op.name)}({', '.join(args)})"

    def tuple(self, values: tuple[Value, ...]) -> str:
        """Several values as one tuple."""
        return f"({''.join(f'{self.text(value)}, ' for value in values).rstrip()})"

    def condition(self, value: Value) -> str:
        """An expression that Python takes as true where the bool is."""
        match value:
            case Op(op=operations.NE, args=(operand, Const(value=0))):
                return self.text(operand)
            case Op(op=operations.NOT, args=(operand,)):
                return f"(not {self.condition(operand)})"
            case Op(op=operations.BOTH | operations.EITHER as op, args=args):
                return self._filled(op, map(self.condition, args))
        return self.text(value)

    def wrapped(self, text: str, low: int, high: int, type: IntType) -> str:
        """An integer between two bounds, cut to a type."""
        least, most = limits(type)
        if least <= low and high <= most:
            return text
        mask = (1 << type.bits) - 1
        if not type.signed:
            return f"({text} & {mask})"
        sign = 1 << (type.bits - 1)
        # Flipping the sign bit and taking it away again extends it; what has only the bits of the type needs no mask.
        bits = text if low >= 0 and high <= mask else f"({text} & {mask})"
        return f"(({bits} ^ {sign}) - {sign})"

    def as_integer(self, value: Value, type: IntType) -> str:
        """A value as an integer of a type that may be another one."""
        return self.wrapped(self.text(value), *bounds(value), type)


def _wrap(printer: PythonValues, op: Op) -> str:
    assert isinstance(op.type, IntType)
    return printer.as_integer(op.args[0], op.type)


def _divided(printer: PythonValues, op: Op) -> str:
    left, right = map(printer.text, op.args)
    if bounds(op.args[0])[0] >= 0 and bounds(op.args[1])[0] >= 0:
        return f"({left} {'//' if op.op is operations.QUOT else '%'} {right})"
    function = quotient if op.op is operations.QUOT else remainder
    return f"{printer.writer.bind(function, op.op.name)}({left}, {right})"


def _select(printer: PythonValues, op: Op) -> str:
    condition, then, otherwise = op.args
    return f"({printer.text(then)} if {printer.condition(condition)} else {printer.text(otherwise)})"


def _part(printer: PythonValues, op: Op) -> str:
    whole, start = map(printer.text, op.args)
    size = op.type.size - 1 if isinstance(op.type, StringType) else memory_size(op.type)
    end = str(int(start) + size) if isinstance(op.args[1], Const) else f"{start} + {size}"
    part = f"{whole}[{start} : {end}]"
    match op.type:
        case StringType():
            return f"{part}.partition({printer.writer.bind(bytes(1), 'nul')})[0]"
        case IntType(signed=signed):
            return f"{printer.writer.bind(_SIGNED if signed else _UNSIGNED, 'integer')}({part})"
        case BoolType():
            return f"({printer.writer.bind(_UNSIGNED, 'integer')}({part}) != 0)"
        case _:
            return f"{part}.ljust({size}, {printer.writer.bind(bytes(1), 'nul')})"


def _pack(printer: PythonValues, op: Op) -> str:
    pack = printer.writer.bind(_packed, "packed")
    return f"({' + '.join(f'{pack}({printer.text(arg)}, {memory_size(arg.type)})' for arg in op.args)})"


def _nul(printer: PythonValues) -> str:
    return printer.writer.bind(bytes(1), "nul")


def _buffer(printer: PythonValues, op: Op) -> str:
    block, length = map(printer.text, op.args)
    return f"{printer.writer.bind(_buffered, 'buffered')}({block}, {length}, {memory_size(op.type)})"


def _buffered(block: bytes, length: int, size: int) -> bytes:
    return (length.to_bytes(8, sys.byteorder) + block[:length]).ljust(size, b"\0")


def _glob(printer: PythonValues, op: Op) -> str:
    from tracer.lang.builtins.data.globs import parse_glob

    text, pattern = op.args
    assert isinstance(pattern, Const) and isinstance(pattern.value, bytes)
    return f"{printer.writer.bind(parse_glob(pattern.value).matches, 'glob')}({printer.text(text)})"


def _packed(number: int, size: int) -> bytes:
    return (number & ((1 << 8 * size) - 1)).to_bytes(size, sys.byteorder)


_UNSIGNED = partial(int.from_bytes, byteorder=sys.byteorder)
_SIGNED = partial(int.from_bytes, byteorder=sys.byteorder, signed=True)

SPELLED: dict[Operation, Callable[[PythonValues, Op], str]] = {
    operations.WRAP: _wrap,
    operations.QUOT: _divided,
    operations.REM: _divided,
    operations.SELECT: _select,
    operations.PART: _part,
    operations.PACK: _pack,
    operations.BUFFER: _buffer,
    operations.PAD: lambda printer, op: f"{printer.text(op.args[0])}.ljust({memory_size(op.type)}, {_nul(printer)})",
    operations.TUPLE: lambda printer, op: printer.tuple(op.args),
    operations.GLOB: _glob,
    operations.TRACED: lambda printer, op: f"{printer.world}.traced({printer.text(op.args[0])})",
    operations.SYMBOL: lambda printer, op: f"{printer.world}.place{printer.tuple(op.args)}",
}
"""Those whose text follows from more than those of the operands."""
