"""Operations on values: folded where they are constant, wrapped where they could leave their type.

This is the one place that says how integers behave: they wrap at their width; division and remainder truncate towards
zero and are never asked for a divisor of 0, which `expressions.Lowering.arithmetic` sees to; shift counts are taken
modulo 64; `>>` of a signed value keeps the sign.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.lang.types import BOOL, BoolType, IntType, Type, operations
from tracer.steps.values import Const, Name, Op, Value

UNBOUNDED = -(1 << 128), 1 << 128
"""The bounds of a value without known bounds."""
_FOLDS: dict[str, Callable[[int, int], int]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "quot", "%": "rem", "&": "and", "|": "or", "^": "xor"}


def limits(type: Type) -> tuple[int, int]:
    """The least and the greatest value of an integer type or bool."""
    if isinstance(type, BoolType):
        return 0, 1
    if not isinstance(type, IntType):
        return UNBOUNDED
    if type.signed:
        return -(1 << (type.bits - 1)), (1 << (type.bits - 1)) - 1
    return 0, (1 << type.bits) - 1


def bounds(value: Value) -> tuple[int, int]:
    """Between which numbers an integer or bool lies, both included; those of `add` and its kin are not wrapped."""
    match value:
        case Const(value=int(number)):
            return int(number), int(number)
        case Op(op=op, args=args, type=type):
            found = _bounds(op, type, args)
            return limits(type) if found is None else found
    return limits(value.type)


def _bounds(op: str, type: Type, args: tuple[Value, ...]) -> tuple[int, int] | None:
    match op:
        case "select":
            (low, high), (lower, higher) = bounds(args[1]), bounds(args[2])
            return min(low, lower), max(high, higher)
        case "strlen":
            return 0, (1 << 32) - 1
        case "memcmp":
            return -255, 255
        case "find":
            return -1, (1 << 31) - 1
    if op not in ("wrap", "int", "neg", "inv", "add", "sub", "mul", "and", "or", "xor", "shl", "shr", "quot", "rem"):
        return None
    low, high = bounds(args[0])
    match op:
        case "wrap":
            least, most = limits(type)
            return (low, high) if least <= low and high <= most else (least, most)
        case "int":
            return low, high
        case "neg":
            return -high, -low
        case "inv":
            return ~high, ~low
    lower, higher = bounds(args[1])
    match op:
        case "add":
            return low + lower, high + higher
        case "sub":
            return low - higher, high - lower
        case "mul":
            corners = [a * b for a in (low, high) for b in (lower, higher)]
            return min(corners), max(corners)
        case "and":
            # An operand that is not negative bounds the result from above and makes it not negative.
            positive = [top for bottom, top in ((low, high), (lower, higher)) if bottom >= 0]
            return (0, min(positive)) if positive else None
        case "shl":
            return (low << higher if low < 0 else low << lower), (high << higher if high > 0 else high << lower)
        case "shr":
            return low >> (lower if low < 0 else higher), high >> (higher if high < 0 else lower)
        case "or" | "xor":
            # Not negative, it has no bit above those of both.
            return (0, (1 << max(high, higher).bit_length()) - 1) if low >= 0 and lower >= 0 else None
        case "quot" if low >= 0 and lower >= 0:
            return low // max(higher, 1), high // max(lower, 1)
        case "quot":
            most = max(abs(low), abs(high))
            return -most, most
        case _:
            most = max(abs(lower), abs(higher), 1) - 1
            return max(min(low, 0), -most), min(max(high, 0), most)


def wrap(value: Value, type: IntType) -> Value:
    """A value cut to an integer type."""
    if isinstance(value, Const):
        return Const(type, operations.wrap(int(value.value), type))
    if value.type == type and _fits(value, type):
        return value
    if isinstance(value, Op) and value.op == "wrap":
        assert isinstance(value.type, IntType)
        if value.type.bits >= type.bits:
            return wrap(value.args[0], type)  # the bits that are left were there before
    return Op(type, "wrap", (value,))


def _fits(value: Value, type: Type) -> bool:
    low, high = bounds(value)
    least, most = limits(type)
    return least <= low and high <= most


def unary(op: str, operand: Value, type: IntType) -> Value:
    """`-` and `~`."""
    if isinstance(operand, Const):
        return wrap(Const(type, -int(operand.value) if op == "-" else ~int(operand.value)), type)
    if op == "~" and not type.signed:
        return Op(type, "xor", (operand, Const(type, limits(type)[1])))
    return wrap(Op(type, "neg" if op == "-" else "inv", (operand,)), type)


def binary(op: str, left: Value, right: Value, type: IntType, once: Callable[[Value], Value]) -> Value:
    """`+ - * / % & | ^ << >>`; `once` gives a value a name, where it is needed twice."""
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(type, operations.ARITHMETIC[op](int(left.value), int(right.value), type))
    if op in ("<<", ">>"):
        if isinstance(right, Const):
            count: Value = Const(right.type, int(right.value) & operations.SHIFT_MASK)
        elif bounds(right)[0] >= 0 and bounds(right)[1] <= operations.SHIFT_MASK:
            count = right
        else:
            count = Op(right.type, "and", (right, Const(right.type, operations.SHIFT_MASK)))
        return wrap(Op(type, "shl" if op == "<<" else "shr", (left, count)), type)
    if op in ("+", "-") and isinstance(right, Const) and right.value == 0:
        return wrap(left, type)
    if op in ("+", "-") and isinstance(right, Const) and (sum := _constant_added(left, type)) is not None:
        # ($p + 8) + 8: constants are added, so that an address is a base plus one constant.
        base, constant = sum
        total = operations.wrap(constant + (int(right.value) if op == "+" else -int(right.value)), type)
        return wrap(base if total == 0 else Op(type, "add", (base, Const(type, total))), type)
    if op == "+" and isinstance(left, Const):
        return binary("+", right, left, type, once)
    return wrap(Op(type, _ARITHMETIC[op], (left, right)), type)


def _constant_added(value: Value, type: IntType) -> tuple[Value, int] | None:
    """A sum in the same type as its base and the constant."""
    inner = value.args[0] if isinstance(value, Op) and value.op == "wrap" else value
    if isinstance(inner, Op) and inner.op in ("add", "sub") and value.type == inner.type == type:
        constant = inner.args[1]
        if isinstance(constant, Const):
            return inner.args[0], int(constant.value) if inner.op == "add" else -int(constant.value)
    return None


def compare(op: str, left: Value, right: Value) -> Value:
    """`== != < <= > >=` on integers of one type."""
    name = COMPARISONS[op]
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(BOOL, bool(_FOLDS[name](int(left.value), int(right.value))))
    return Op(BOOL, name, (left, right))


def truth(value: Value) -> Value:
    """Whether an integer or bool is not 0."""
    if isinstance(value.type, BoolType):
        return value
    if isinstance(value, Const):
        return Const(BOOL, value.value != 0)
    if isinstance(value, Op) and value.op == "int":
        return value.args[0]
    return Op(BOOL, "ne", (value, Const(value.type, 0)))


def negation(value: Value) -> Value:
    """`!` of a bool."""
    if isinstance(value, Const):
        return Const(BOOL, not value.value)
    if isinstance(value, Op) and value.op == "not":
        return value.args[0]
    return Op(BOOL, "not", (value,))


def number(value: Value, type: IntType) -> Value:
    """A bool as 0 or 1."""
    return Const(type, int(value.value)) if isinstance(value, Const) else Op(type, "int", (value,))


def select(condition: Value, then: Value, otherwise: Value) -> Value:
    """`then` where the condition holds, else `otherwise`."""
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    return then if then == otherwise else Op(then.type, "select", (condition, then, otherwise))


def address(value: Value) -> tuple[Value, int]:
    """An address as a base and a signed constant: casts between 64-bit integers change nothing in it."""
    match value:
        case Op(op="wrap", type=IntType(bits=64), args=(inner,)):
            return address(inner)
        case Op(op="add" | "sub" as op, type=IntType(bits=64), args=(left, right)):
            if isinstance(right, Const):
                base, offset = address(left)
                offset += int(right.value) if op == "add" else -int(right.value)
                return base, (offset + (1 << 63)) % (1 << 64) - (1 << 63)
    return value, 0


def depth(value: Value) -> int:
    """How deep the operations of a value are nested."""
    return 1 + max(map(depth, value.args), default=0) if isinstance(value, Op) else 0


def atomic(value: Value) -> bool:
    """Whether a value may be written twice."""
    return isinstance(value, (Const, Name))
