"""Folding: what a typed expression is where its parts are constants, and the conversions that fold at once."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT8,
    UINT64,
    ArrayType,
    BoolType,
    CharType,
    Field,
    IntType,
    StringType,
    TupleType,
    Type,
    is_block,
    memory_size,
    operations,
)
from tracer.lang.types.combine import LITERAL, settled

INT64_MOST = (1 << 63) - 1


def literal(value: int, span: Span) -> typed.IntLit:
    """A constant as its value types it: `LITERAL`, int64 if negative, uint64 if too large for that."""
    type = INT64 if value < 0 else LITERAL if value <= INT64_MOST else UINT64
    return typed.IntLit(type, span, operations.wrap(value, type))


def width(number: int) -> int:
    """Bytes of the smallest signed integer that holds a number."""
    return next(bits for bits in (8, 16, 32, 64) if -(1 << (bits - 1)) <= number < 1 << (bits - 1) or bits == 64) // 8


def string(value: bytes, span: Span) -> typed.StrLit:
    """A string constant."""
    return typed.StrLit(StringType(len(value) + 1), span, value)


def literal_of(value: int | bool | bytes, type: Type, span: Span) -> typed.Expr:
    """The constant of a Python value."""
    if isinstance(value, bytes):
        return string(value, span)
    assert isinstance(type, (IntType, BoolType))
    number = operations.cast(value, type)
    return typed.BoolLit(BOOL, span, number) if isinstance(number, bool) else typed.IntLit(type, span, number)


def constant(expr: typed.Expr) -> int | None:
    """The value of an integer or bool constant."""
    return int(expr.value) if isinstance(expr, (typed.IntLit, typed.BoolLit)) else None


def written(expr: typed.Expr | None) -> int | bytes | None:
    """The value of a literal: an integer, a bool or a string."""
    return expr.value if isinstance(expr, (typed.IntLit, typed.BoolLit, typed.StrLit)) else None


def known_now(expr: typed.Expr) -> int | bytes | tuple[object, ...] | None:
    """The value of any constant: an integer, a bool, a string, or a tuple of such."""
    if isinstance(expr, typed.Cast) and isinstance(expr.type, StringType):
        return known_now(expr.operand)
    if isinstance(expr, typed.TupleExpr):
        items = tuple(map(known_now, expr.items))
        return None if None in items else items
    return written(expr)


def fold(node: typed.Expr) -> typed.Expr:
    """The node itself, or what it comes to: its parts are folded already."""
    match node:
        case typed.Binary(op="&&" | "||"):
            one, other = constant(node.left), constant(node.right)
            if one is not None and bool(one) == (node.op == "||"):
                return literal_of(bool(one), BOOL, node.span)
            if one is not None and other is not None:
                return literal_of(bool(other), BOOL, node.span)
        case typed.Binary(op="==" | "!=", left=typed.TupleExpr() as left, right=typed.TupleExpr() as right):
            values = known_now(left), known_now(right)
            if None not in values:
                return literal_of((values[0] == values[1]) == (node.op == "=="), BOOL, node.span)
        case typed.Binary(left=typed.StrLit() as left, right=typed.StrLit() as right):
            if node.op == "+":
                return string(left.value + right.value, node.span)
            order = (left.value > right.value) - (left.value < right.value)
            return literal_of(operations.COMPARISON[node.op](order, 0), BOOL, node.span)
        case typed.Binary():
            one, other = constant(node.left), constant(node.right)
            if node.op in ("/", "%") and other == 0:
                return node  # counted where it runs
            if one is not None and other is not None and isinstance(node.left.type, IntType):
                if node.op in operations.COMPARISON:
                    return literal_of(operations.COMPARISON[node.op](one, other), BOOL, node.span)
                assert isinstance(node.type, IntType)
                return literal_of(operations.ARITHMETIC[node.op](one, other, node.type), node.type, node.span)
        case typed.Unary():
            value = constant(node.operand)
            if value is not None:
                result = not value if node.op == "!" else -value if node.op == "-" else ~value
                return literal_of(result, node.type, node.span)
        case typed.Cast():
            value = constant(node.operand)
            if value is not None and isinstance(node.type, (IntType, BoolType)):
                return literal_of(value, node.type, node.span)
        case typed.Ternary():
            value = constant(node.condition)
            if value is not None:
                return node.then if value else node.otherwise
    return node


def convert(expr: typed.Expr, to: Type) -> typed.Expr:
    """`expr` as a value of type `to`, which has to be able to hold it: integers, wider strings, tuples of these."""
    have = expr.type
    if settled(have) == settled(to):
        return expr
    if isinstance(have, TupleType) and isinstance(to, TupleType):
        if have.names != to.names:
            return typed.Cast(to, expr.span, convert(expr, to.ordered(have.names)))
        items = zip(tuple_items(expr), to.items, strict=True)
        return typed.TupleExpr(to, expr.span, tuple(convert(item, type) for item, type in items))
    return fold(typed.Cast(to, expr.span, expr))


def cast(expr: typed.Expr, to: IntType | BoolType) -> typed.Expr:
    """An explicit cast of an integer or bool: the result has just this type, even where nothing changes."""
    converted = convert(expr, to)
    return converted if converted.type == to else replace(converted, type=to)


def array_in_memory(value: typed.Expr) -> tuple[typed.Expr, ArrayType] | None:
    """The address (uint64) and type of an array of the traced program; None of any other value."""
    if isinstance(value, typed.Str) and value.array:
        assert isinstance(value.type, StringType)
        return value.address, ArrayType(CharType(), value.type.size - 1)
    if isinstance(value, typed.Load) and isinstance(value.type, ArrayType):
        return value.address, value.type
    return None


def bits(holder: typed.Expr, field: Field, span: Span) -> typed.Expr:
    """A bit field out of the integer that holds it."""
    assert isinstance(field.type, IntType | BoolType)
    wide = INT64 if isinstance(field.type, IntType) and field.type.signed else UINT64
    up, down = 64 - field.shift - field.width, 64 - field.width
    shifted = fold(typed.Binary(wide, span, "<<", convert(holder, wide), typed.IntLit(wide, span, up)))
    return convert(fold(typed.Binary(wide, span, ">>", shifted, typed.IntLit(wide, span, down))), field.type)


def packed(type: Type, words: Iterable[tuple[int, int, typed.Expr, int]], span: Span) -> typed.Expr:
    """A struct or an array from parts of words: (offset in it, size in bytes, word, bit of the word)."""
    items: list[typed.Expr] = []
    end = 0
    for offset, size, word, shift in words:
        items += [typed.IntLit(UINT8, span, 0)] * (offset - end)
        if shift:
            word = fold(typed.Binary(UINT64, span, ">>", word, typed.IntLit(UINT64, span, shift)))
        items.append(convert(word, IntType(8 * size, False)))
        end = offset + size
    items += [typed.IntLit(UINT8, span, 0)] * (memory_size(type) - end)  # what aligns it
    return typed.Pack(type, span, tuple(items))


def tuple_items(expr: typed.Expr) -> tuple[typed.Expr, ...]:
    """The items of an expression of tuple type."""
    if isinstance(expr, typed.TupleExpr):
        return expr.items
    assert isinstance(expr.type, TupleType)
    return tuple(typed.TupleItem(type, expr.span, expr, index) for index, type in enumerate(expr.type.items))


def laid_out(expr: typed.Expr, most: int | None = None) -> typed.Expr | None:
    """The bytes of a value, or the first of them, as an array; None where its type has no form in memory."""
    from tracer.lang.types.sizes import size_of

    type = settled(expr.type)
    if is_block(type):
        return expr
    size = size_of(type)
    if not size or not _is_plain(type):
        return None
    array = ArrayType(UINT8, size if most is None else min(size, most))
    if isinstance(expr, typed.StrLit):
        return typed.StrLit(array, expr.span, expr.value.ljust(size, b"\0")[: array.count])
    if isinstance(type, IntType | BoolType):
        return typed.Pack(ArrayType(UINT8, size), expr.span, (convert(expr, IntType(8 * size, False)),))
    if isinstance(type, StringType):
        return typed.Part(array, expr.span, expr, typed.IntLit(UINT64, expr.span, 0))
    return typed.Cast(array, expr.span, expr)


def _is_plain(type: Type) -> bool:
    """Whether a value is numbers, texts and blocks alone."""
    if isinstance(type, TupleType):
        return all(map(_is_plain, type.items))
    return isinstance(type, IntType | BoolType | StringType) or is_block(type)


def true_text(text: typed.Expr) -> typed.Expr:
    """Whether a string is not empty."""
    empty = typed.StrLit(StringType(1), text.span, b"")
    return fold(typed.Binary(BOOL, text.span, "!=", text, convert(empty, text.type)))


def literals(op: str, left: int, right: int, span: Span) -> typed.Expr:
    """An arithmetic operator on two literals: computed exactly where 64 bits hold the result, else wrapped."""
    if left >= 0 and right >= 0 and op != "-":
        return literal(operations.ARITHMETIC[op](left, right, UINT64), span)
    exact = left - right if op == "-" else operations.ARITHMETIC[op](left, right, INT64)
    return literal(exact, span)
