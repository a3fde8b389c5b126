"""Operators between two typed expressions."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.check.expressions import memory
from tracer.lang.fold import constant, convert, fold, literals
from tracer.lang.scope.context import Context
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    BoolType,
    BufferType,
    CgroupPathType,
    IntType,
    KernelSymbolType,
    PointerType,
    StackType,
    StringType,
    SymbolType,
    TimestampType,
    TupleType,
    Type,
    UsernameType,
    VariablePointer,
    is_block,
)
from tracer.lang.types.combine import LITERAL, a_type, arithmetic, bends, compared, join, join_ints, wide
from tracer.lang.types.operations import COMPARISON

TEXT_HINT = 'compare it, as in str(arg0) == "text"'


def binary(ctx: Context, op: str, left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr | None:
    """`left op right`."""
    numbers = [isinstance(side.type, (IntType, BoolType)) for side in (left, right)]
    odd = left if not numbers[0] else right
    if op in ("&&", "||"):
        if not all(numbers):
            hint = TEXT_HINT if isinstance(odd.type, StringType) else None
            ctx.error(f"'{op}' needs integers or bools, not {a_type(odd.type)}", odd.span, hint)
            return None
        return fold(typed.Binary(BOOL, span, op, left, right))
    if all(numbers):
        pointer, count = (left, right) if isinstance(left.type, PointerType) else (right, left)
        if isinstance(pointer.type, PointerType) and op not in COMPARISON:
            if (op == "+" or (op == "-" and pointer is left)) and not isinstance(count.type, PointerType):
                return _moved(ctx, op, pointer, count, span)
            hint = f"(uint64){ctx.text(pointer.span)} is its address as a number"
            ctx.error(f"'{op}' needs integers, not {a_type(pointer.type)}", pointer.span, hint)
            return None
        return _integers(ctx, op, left, right, span)
    if op in ("==", "!="):
        return _equality(ctx, op, left, right, span)
    if isinstance(left, typed.StrLit) and isinstance(right, typed.StrLit) and (op == "+" or op in COMPARISON):
        return fold(typed.Binary(BOOL, span, op, left, right))
    hint = "strings compare with == and !=" if op in COMPARISON and isinstance(odd.type, StringType) else None
    ctx.error(f"'{op}' needs integers, not {a_type(odd.type)}", odd.span, hint)
    return None


def _moved(ctx: Context, op: str, pointer: typed.Expr, count: typed.Expr, span: Span) -> typed.Expr | None:
    """A pointer so many values on."""
    assert isinstance(pointer.type, PointerType)
    step = amount(ctx, pointer.type, count)
    moved = fold(typed.Binary(UINT64, span, op, convert(pointer, UINT64), step))
    type = replace(pointer.type, moved=True) if isinstance(pointer.type, VariablePointer) else pointer.type
    return replace(convert(moved, type), type=type)


def amount(ctx: Context, of: Type, count: typed.Expr) -> typed.Expr:
    """The amount that `+ count` adds to a value of a type: to a pointer so many of what it leads to."""
    if not isinstance(of, PointerType):
        return count
    memory.step(ctx, of, count.span)
    return memory.scaled(ctx, count, of.target or IntType(8))


def _converted(
    op: str, left: typed.Expr, right: typed.Expr, to: Type, span: Span, result: Type | None = None
) -> typed.Expr:
    return fold(typed.Binary(result or to, span, op, convert(left, to), convert(right, to)))


_ALIKE = (SymbolType, KernelSymbolType, UsernameType, CgroupPathType, StackType)


def _equality(ctx: Context, op: str, left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr | None:
    """`==` and `!=` of strings and of tuples."""
    if left.type == right.type:
        if is_block(left.type) or isinstance(left.type, _ALIKE):
            return typed.Binary(BOOL, span, op, left, right)
        if isinstance(left.type, TimestampType):
            return _converted(op, left, right, UINT64, span, BOOL)
    wide = (StringType, TupleType, BufferType)
    comparable = isinstance(left.type, wide) and isinstance(right.type, wide)
    common = join(left.type, right.type) if comparable else None
    if common is not None:
        return _converted(op, left, right, common, span, BOOL)
    addresses = any(isinstance(item, PointerType) for side in (left, right) for item in getattr(side.type, "items", ()))
    if isinstance(left.type, TupleType) and isinstance(right.type, TupleType) and not addresses:
        ctx.warn(f"{a_type(left.type)} never equals {a_type(right.type)}", span)
        both = (typed.ExprStmt(left.span, left), typed.ExprStmt(right.span, right))
        return typed.BlockExpr(BOOL, span, both, typed.BoolLit(BOOL, span, op == "!="))
    hint = None
    for one, other in ((left, right), (right, left)):
        if isinstance(one.type, StringType) and isinstance(other.type, IntType):
            hint = f"str({ctx.text(other.span)}) reads the string at that address"
    ctx.error(f"{a_type(left.type)} cannot be compared with {a_type(right.type)}", span, hint)
    return None


def _integers(ctx: Context, op: str, left: typed.Expr, right: typed.Expr, span: Span) -> typed.Expr | None:
    if op in ("&", "|", "^") and isinstance(left.type, BoolType) and isinstance(right.type, BoolType):
        return convert(_converted(op, left, right, INT64, span), BOOL)
    left, right = (convert(side, LITERAL) if isinstance(side.type, BoolType) else side for side in (left, right))
    assert isinstance(left.type, IntType) and isinstance(right.type, IntType)
    one, other = constant(left), constant(right)
    if op in COMPARISON:
        if one is None or other is None:
            _warn_of_sign(ctx, op, left, right, span)
        return _converted(op, left, right, compared(op, left.type, right.type), span, BOOL)
    if other == 0 and op in ("/", "%"):
        ctx.error("division by zero", span)
        return None
    if one is not None and other is not None and _is_literal(left, one) and _is_literal(right, other):
        return _literals(ctx, op, one, other, span)
    operands, result = arithmetic(op, left.type, right.type)
    return convert(_converted(op, left, right, operands, span), result)


def _literals(ctx: Context, op: str, one: int, other: int, span: Span) -> typed.Expr | None:
    """An operation on two literals, where 64 bits hold the result."""
    if op in ("<<", ">>") and not 0 <= other < 64:
        ctx.error(f"{other} is not a valid shift count", span, "a shift count is 0 to 63")
        return None
    exact = {"+": one + other, "-": one - other, "*": one * other}.get(op, 0)
    if not -(1 << 63) <= exact < 1 << 64:
        ctx.error(f"{ctx.text(span)} does not fit in 64 bits", span)
        return None
    return literals(op, one, other, span)


def _is_literal(expr: typed.Expr, value: int) -> bool:
    """Whether a constant has the type its value gave it, and not one from a cast."""
    return expr.type == LITERAL or value < 0 or value >= 1 << 63


def _warn_of_sign(ctx: Context, op: str, left: typed.Expr, right: typed.Expr, span: Span) -> None:
    """Warns of a comparison that does not do what it looks like."""
    assert isinstance(left.type, IntType) and isinstance(right.type, IntType)
    if not left.type.signed and constant(right) == 0 and op in ("<", ">="):
        outcome = "false" if op == "<" else "true"
        written = ctx.text(left.span)
        # The register of an int's result has zeros above it: as an int64 it is not negative either.
        remedy = f"write (int64){written}"
        if written == "retval":
            remedy = "write (int32)retval where it is an int, (int64)retval where it is a long"
        ctx.warn(f"this is always {outcome}: {written} is unsigned", span, remedy)
        return
    common = wide(join_ints(left.type, right.type))
    for side in (left, right):
        warn_of_bend(ctx, side, common)


def warn_of_bend(ctx: Context, value: typed.Expr, to: Type) -> None:
    """Warns of a value that is converted to a type that cannot hold all its values."""
    number = constant(value)
    if not bends(value.type, to) or (number is not None and constant(convert(value, to)) == number):
        return
    written = ctx.text(value.span)
    what = f"{written} is {a_type(value.type)} and becomes {a_type(to)} here, which cannot hold all its values"
    ctx.warn(what, value.span, f"write ({to}){written}{f', or (int32){written} for a C int' * (to == INT64)}")
