"""Operators between two typed expressions."""

from __future__ import annotations

from collections.abc import Callable

from tracer.dataclass import dataclass
from tracer.errors import Diagnostic, Span
from tracer.lang import typed
from tracer.lang.convert import binary as fold
from tracer.lang.convert import constant, convert, literals
from tracer.lang.types import BOOL, BoolType, IntType, StringType, TupleType
from tracer.lang.types.combine import LITERAL, a, arithmetic, compared, join, say
from tracer.lang.types.operations import COMPARISON

EQUALITY = ("==", "!=")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The typed operation, or None, and what there is to say about it."""

    expr: typed.Expr | None
    diagnostics: tuple[Diagnostic, ...] = ()


def binary(op: str, left: typed.Expr, right: typed.Expr, span: Span, text: Callable[[Span], str]) -> Outcome:
    """`left op right`; `text` gives what the user wrote at a span."""
    if op in ("&&", "||"):
        for side in (left, right):
            if not isinstance(side.type, (IntType, BoolType)):
                return _wrong(f"'{op}' needs integers or bools, not {a(side.type)}", side.span, _string_hint(side))
        return Outcome(fold(op, left, right, BOOL, span))
    if isinstance(left.type, (IntType, BoolType)) and isinstance(right.type, (IntType, BoolType)):
        return _integers(op, left, right, span, text)
    if op in EQUALITY:
        return _equality(op, left, right, span, text)
    odd = left if not isinstance(left.type, (IntType, BoolType)) else right
    hint = "strings compare with == and !=" if op in COMPARISON and isinstance(odd.type, StringType) else None
    return _wrong(f"'{op}' needs integers, not {a(odd.type)}", odd.span, hint)


def _wrong(message: str, span: Span, hint: str | None) -> Outcome:
    return Outcome(None, (Diagnostic(message, span, hint),))


def _string_hint(side: typed.Expr) -> str | None:
    return 'compare it, as in str(arg0) == "text"' if isinstance(side.type, StringType) else None


def _equality(op: str, left: typed.Expr, right: typed.Expr, span: Span, text: Callable[[Span], str]) -> Outcome:
    """`==` and `!=` of strings and of tuples."""
    comparable = isinstance(left.type, (StringType, TupleType)) and isinstance(right.type, (StringType, TupleType))
    common = join(left.type, right.type) if comparable else None
    if common is not None:
        return Outcome(fold(op, convert(left, common), convert(right, common), BOOL, span))
    hint = None
    for one, other in ((left, right), (right, left)):
        if isinstance(one.type, StringType) and isinstance(other.type, IntType):
            hint = f"str({text(other.span)}) reads the string at that address"
    return _wrong(f"{a(left.type)} cannot be compared with {a(right.type)}", span, hint)


def as_integer(expr: typed.Expr) -> typed.Expr:
    """A bool as the integer 1 or 0; integers as they are."""
    return convert(expr, LITERAL) if isinstance(expr.type, BoolType) else expr


def _integers(op: str, left: typed.Expr, right: typed.Expr, span: Span, text: Callable[[Span], str]) -> Outcome:
    left, right = as_integer(left), as_integer(right)
    assert isinstance(left.type, IntType) and isinstance(right.type, IntType)
    if op in COMPARISON:
        type, _ = compared(left.type, right.type)
        said = _suspicious(op, left, right, span, text)
        return Outcome(fold(op, convert(left, type), convert(right, type), BOOL, span), said)
    one, other = constant(left), constant(right)
    if other == 0 and op in ("/", "%"):
        return _wrong("division by zero", span, None)
    if one is not None and other is not None and _from_literals(left) and _from_literals(right):
        return Outcome(literals(op, one, other, span))
    operands, result = arithmetic(op, left.type, right.type)
    expr = fold(op, convert(left, operands), convert(right, operands), operands, span)
    return Outcome(convert(expr, result))


def _from_literals(expr: typed.Expr) -> bool:
    """Whether a constant has the type its value gave it, and not one from a cast."""
    value = constant(expr)
    assert value is not None
    return expr.type is LITERAL or value < 0 or value >= 1 << 63


def _suspicious(
    op: str, left: typed.Expr, right: typed.Expr, span: Span, text: Callable[[Span], str]
) -> tuple[Diagnostic, ...]:
    """A warning where a comparison does not do what it looks like."""
    assert isinstance(left.type, IntType) and isinstance(right.type, IntType)
    one, other = constant(left), constant(right)
    if one is not None and other is not None:
        return ()
    if not left.type.signed and other == 0 and op in ("<", ">="):
        outcome = "false" if op == "<" else "true"
        written = text(left.span)
        return (_warning(f"this is always {outcome}: {written} is unsigned", span, f"write (int64){written}"),)
    if compared(left.type, right.type)[1]:
        return ()
    signed, unsigned = (left, right) if left.type.signed else (right, left)
    value = constant(signed)
    written = text(unsigned.span)
    if value is not None:
        return (
            _warning(
                f"{written} is unsigned: {value} is compared as {value % (1 << 64)}",
                span,
                f"write (int64){written}, or (int32){written} for a C int",
            ),
        )
    return (
        _warning(
            f"{say(left.type)} and {say(right.type)} are compared as unsigned",
            span,
            f"cast one of them: (int64){written}",
        ),
    )


def _warning(message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(message, span, hint, "warning")
