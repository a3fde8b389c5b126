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
            limited = op.bounds if op.bounds is None or isinstance(op.bounds, tuple) else op.bounds(
                limits(type), *map(bounds, args)
            )
            return limited or limits(type)
    return limits(value.type)


def wrap(value: Value, type: IntType) -> Value:
    """A value cut to an integer type."""
    if isinstance(value, Const):
        return Const(type, operations.wrap(int(value.value), type))
    if value.type == type and _fits(value, type):
        return value
    if isinstance(value, Op) and value.op is operations.WRAP:
        assert isinstance(value.type, IntType)
        if value.type.bits >= type.bits:
            return wrap(value.args[0], type)  # the bits that are left were there before
    return Op(type, operations.WRAP, (value,))


def _fits(value: Value, type: Type) -> bool:
    low, high = bounds(value)
    least, most = limits(type)
    return least <= low and high <= most


def unary(op: str, operand: Value, type: IntType) -> Value:
    """`-` and `~`."""
    if isinstance(operand, Const):
        return wrap(Const(type, -int(operand.value) if op == "-" else ~int(operand.value)), type)
    if op == "~" and not type.signed:
        return Op(type, operations.XOR, (operand, Const(type, limits(type)[1])))
    return wrap(Op(type, operations.NEG if op == "-" else operations.INV, (operand,)), type)


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
            count = Op(right.type, operations.AND, (right, Const(right.type, operations.SHIFT_MASK)))
        return wrap(Op(type, operations.BINARY[op], (left, count)), type)
    if op in ("+", "-") and isinstance(right, Const) and right.value == 0:
        return wrap(left, type)
    if op in ("+", "-") and isinstance(right, Const) and (sum := _constant_added(left, type)) is not None:
        # ($p + 8) + 8: constants are added, so that an address is a base plus one constant.
        base, constant = sum
        total = operations.wrap(constant + (int(right.value) if op == "+" else -int(right.value)), type)
        return wrap(base if total == 0 else Op(type, operations.ADD, (base, Const(type, total))), type)
    if op == "+" and isinstance(left, Const):
        return binary("+", right, left, type, once)
    return wrap(Op(type, operations.BINARY[op], (left, right)), type)


def _constant_added(value: Value, type: IntType) -> tuple[Value, int] | None:
    """A sum in the same type as its base and the constant."""
    inner = value.args[0] if isinstance(value, Op) and value.op is operations.WRAP else value
    if isinstance(inner, Op) and inner.op in (operations.ADD, operations.SUB) and value.type == inner.type == type:
        constant = inner.args[1]
        if isinstance(constant, Const):
            return inner.args[0], int(constant.value) if inner.op is operations.ADD else -int(constant.value)
    return None


def compare(op: str, left: Value, right: Value) -> Value:
    """`== != < <= > >=` on integers of one type."""
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(BOOL, operations.COMPARISON[op](int(left.value), int(right.value)))
    return Op(BOOL, operations.COMPARISONS[op], (left, right))


def truth(value: Value) -> Value:
    """Whether an integer or bool is not 0."""
    if isinstance(value.type, BoolType):
        return value
    if isinstance(value, Const):
        return Const(BOOL, value.value != 0)
    if isinstance(value, Op) and value.op is operations.INT:
        return value.args[0]
    return Op(BOOL, operations.NE, (value, Const(value.type, 0)))


def negation(value: Value) -> Value:
    """`!` of a bool."""
    if isinstance(value, Const):
        return Const(BOOL, not value.value)
    if isinstance(value, Op) and value.op is operations.NOT:
        return value.args[0]
    return Op(BOOL, operations.NOT, (value,))


def number(value: Value, type: IntType) -> Value:
    """A bool as 0 or 1."""
    return Const(type, int(value.value)) if isinstance(value, Const) else Op(type, operations.INT, (value,))


def select(condition: Value, then: Value, otherwise: Value) -> Value:
    """`then` where the condition holds, else `otherwise`."""
    if isinstance(condition, Const):
        return then if condition.value else otherwise
    return then if then == otherwise else Op(then.type, operations.SELECT, (condition, then, otherwise))


def address(value: Value) -> tuple[Value, int]:
    """An address as a base and a signed constant: casts between 64-bit integers change nothing in it."""
    match value:
        case Op(op=operations.WRAP, type=IntType(bits=64), args=(inner,)):
            return address(inner)
        case Op(op=operations.ADD | operations.SUB as op, type=IntType(bits=64), args=(left, right)):
            if isinstance(right, Const):
                base, offset = address(left)
                offset += int(right.value) if op is operations.ADD else -int(right.value)
                return base, (offset + (1 << 63)) % (1 << 64) - (1 << 63)
    return value, 0


def depth(value: Value) -> int:
    """The depth to which the operations of a value are nested."""
    return 1 + max(map(depth, value.args), default=0) if isinstance(value, Op) else 0


def atomic(value: Value) -> bool:
    """Whether a value may be written twice."""
    return isinstance(value, (Const, Name))
