"""Integer operators as Python expressions: each wraps only where its result can leave the range of its type."""

from __future__ import annotations

from tracer.interp.source import Code, Writer
from tracer.lang.types import IntType
from tracer.results.integers import quotient, remainder


def bounds(type: IntType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if type.signed:
        return -(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1
    return 0, (1 << type.bits) - 1


def wrapped(code: Code, type: IntType) -> Code:
    """`code` cut to a type."""
    low, high = bounds(type)
    if low <= code.low and code.high <= high:
        return code
    mask = (1 << type.bits) - 1
    if not type.signed:
        return Code(f"({code.text} & {mask})", low, high)
    sign = 1 << (type.bits - 1)
    # Flipping the sign bit and taking it away again extends it; what has only the bits of the type needs no mask.
    bits = code.text if code.low >= 0 and code.high <= mask else f"({code.text} & {mask})"
    return Code(f"(({bits} ^ {sign}) - {sign})", low, high)


def of_any_size(text: str, type: IntType) -> Code:
    """A Python integer of any size, cut to a type."""
    huge = 1 << 128
    return wrapped(Code(text, -huge, huge), type)


def unary(op: str, operand: Code, type: IntType) -> Code:
    """`-` and `~`."""
    if op == "-":
        return wrapped(Code(f"(-{operand.text})", -operand.high, -operand.low), type)
    if type.signed:
        return Code(f"(~{operand.text})", ~operand.high, ~operand.low)
    low, high = bounds(type)
    return Code(f"({operand.text} ^ {high})", low, high)


def binary(op: str, left: Code, right: Code, type: IntType, writer: Writer) -> Code:
    """`+ - * / % & | ^ << >>` on two operands of `type`."""
    text = f"({left.text} {op} {right.text})"
    match op:
        case "+":
            return wrapped(Code(text, left.low + right.low, left.high + right.high), type)
        case "-":
            return wrapped(Code(text, left.low - right.high, left.high - right.low), type)
        case "*":
            corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            return wrapped(Code(text, min(corners), max(corners)), type)
        case "/":
            return _quotient(left, right, type, writer)
        case "%":
            return _remainder(left, right, type, writer)
        case "<<" | ">>":
            return _shift(op, left, right, type)
        case "&" if left.low >= 0 or right.low >= 0:
            # A non-negative operand bounds the result from above and makes it non-negative.
            return Code(text, 0, min(code.high for code in (left, right) if code.low >= 0))
        case _:
            return Code(text, *bounds(type))


def _shift(op: str, left: Code, right: Code, type: IntType) -> Code:
    count = right.text if right.low >= 0 and right.high <= 63 else f"({right.text} & 63)"
    text = f"({left.text} {op} {count})"
    if op == ">>":
        return Code(text, min(left.low, 0), max(left.high, 0))
    if 0 <= right.low == right.high <= 63:
        return wrapped(Code(text, left.low << right.low, left.high << right.low), type)
    return of_any_size(text, type)


def _quotient(left: Code, right: Code, type: IntType, writer: Writer) -> Code:
    if left.low >= 0 and right.low >= 0:
        if right.low > 0:
            return Code(f"({left.text} // {right.text})", 0, left.high)
        if right.stable:
            return Code(f"({left.text} // {right.text} if {right.text} else 0)", 0, left.high)
    name = writer.bind(quotient, "quotient")
    largest = max(abs(left.low), abs(left.high))
    return wrapped(Code(f"{name}({left.text}, {right.text})", -largest, largest), type)


def _remainder(left: Code, right: Code, type: IntType, writer: Writer) -> Code:
    if left.low >= 0 and right.low > 0:
        return Code(f"({left.text} % {right.text})", 0, min(left.high, right.high - 1))
    name = writer.bind(remainder, "remainder")
    return Code(f"{name}({left.text}, {right.text})", min(left.low, 0), max(left.high, 0))
