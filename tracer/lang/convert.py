"""Conversions between types and the folding of constants, on typed expressions."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.types import BOOL, INT64, UINT64, BoolType, IntType, StringType, TupleType, Type, operations
from tracer.lang.types.combine import LITERAL

INT64_MOST = (1 << 63) - 1


def literal(value: int, span: Span) -> typed.IntLit:
    """A constant as its value types it: `LITERAL`, int64 if negative, uint64 if too large for that."""
    if value < 0:
        return typed.IntLit(INT64, span, operations.wrap(value, INT64))
    if value <= INT64_MOST:
        return typed.IntLit(LITERAL, span, value)
    return typed.IntLit(UINT64, span, operations.wrap(value, UINT64))


def string(value: bytes, span: Span) -> typed.StrLit:
    """A string constant."""
    return typed.StrLit(StringType(len(value) + 1), span, value)


def constant(expr: typed.Expr) -> int | None:
    """The value of an integer or bool constant."""
    return int(expr.value) if isinstance(expr, (typed.IntLit, typed.BoolLit)) else None


def convert(expr: typed.Expr, to: Type) -> typed.Expr:
    """`expr` as a value of type `to`, which has to be able to hold it: integers, wider strings, tuples of these."""
    have = expr.type
    if have == to:
        return expr
    value = constant(expr)
    if value is not None and isinstance(to, IntType):
        return typed.IntLit(to, expr.span, operations.wrap(value, to))
    if value is not None and isinstance(to, BoolType):
        return typed.BoolLit(BOOL, expr.span, value != 0)
    if isinstance(have, TupleType) and isinstance(to, TupleType):
        items = zip(tuple_items(expr), to.items, strict=True)
        return typed.TupleExpr(to, expr.span, tuple(convert(item, type) for item, type in items))
    return typed.Cast(to, expr.span, expr)


def cast(expr: typed.Expr, to: IntType | BoolType) -> typed.Expr:
    """An explicit cast of an integer or bool: the result has just this type, even where nothing changes."""
    converted = convert(expr, to)
    return converted if converted.type is to else replace(converted, type=to)


def tuple_items(expr: typed.Expr) -> tuple[typed.Expr, ...]:
    """The items of an expression of tuple type."""
    if isinstance(expr, typed.TupleExpr):
        return expr.items
    assert isinstance(expr.type, TupleType)
    return tuple(typed.TupleItem(type, expr.span, expr, index) for index, type in enumerate(expr.type.items))


def binary(op: str, left: typed.Expr, right: typed.Expr, type: Type, span: Span) -> typed.Expr:
    """An operator on operands that have their final type, folded where both are constants."""
    if isinstance(left, typed.StrLit) and isinstance(right, typed.StrLit):
        return typed.BoolLit(BOOL, span, (left.value == right.value) == (op == "=="))
    one, other = constant(left), constant(right)
    if op in ("&&", "||"):
        return _logical(op, left, right, span)
    if one is None or other is None or not isinstance(left.type, IntType):
        return typed.Binary(type, span, op, left, right)
    if op in operations.COMPARISON:
        return typed.BoolLit(BOOL, span, operations.COMPARISON[op](one, other))
    assert isinstance(type, IntType)
    return typed.IntLit(type, span, operations.ARITHMETIC[op](one, other, type))


def _logical(op: str, left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr:
    first, second = constant(left), constant(right)
    if first is not None and bool(first) == (op == "||"):
        return typed.BoolLit(BOOL, span, op == "||")
    if first is not None and second is not None:
        return typed.BoolLit(BOOL, span, bool(second))
    return typed.Binary(BOOL, span, op, left, right)


def literals(op: str, left: int, right: int, span: Span) -> typed.Expr:
    """An arithmetic operator on two literals: computed exactly where 64 bits hold the result, else wrapped."""
    if left >= 0 and right >= 0 and op != "-":
        return literal(operations.ARITHMETIC[op](left, right, UINT64), span)
    exact = left - right if op == "-" else operations.ARITHMETIC[op](left, right, INT64)
    return literal(exact, span)
