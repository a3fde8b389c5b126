"""The checks that an expression is of the sort that its place takes.

Everywhere in this package None stands for a value that has no type yet, or is wrong (which has been reported).
"""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.check.expressions.operators import TEXT_HINT
from tracer.lang.fold import constant, true_text
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import BoolType, IntType, StringType
from tracer.lang.types.combine import a_type


def present(parts: list[typed.Expr | None]) -> list[typed.Expr] | None:
    """The parts, if none is missing."""
    complete = [part for part in parts if part is not None]
    return complete if len(complete) == len(parts) else None


def integer(ctx: Context, node: ast.Expr, what: str) -> typed.Expr | None:
    """An expression that has to be an integer or bool."""
    value = ctx.expr(node)
    if value is None or isinstance(value.type, (IntType, BoolType)):
        return value
    ctx.error(f"{what} must be an integer, not {a_type(value.type)}", value.span)
    return None


def condition(ctx: Context, node: ast.Expr, what: str, text: bool = False) -> typed.Expr | None:
    """An expression that is true or false; with `text` a string is true where it is not empty."""
    value = ctx.expr(node)
    if text and value is not None and isinstance(value.type, StringType):
        return true_text(value)
    if value is None or isinstance(value.type, (IntType, BoolType)):
        return value
    hint = TEXT_HINT if isinstance(value.type, StringType) else None
    ctx.error(f"{what} must be an integer or bool, not {a_type(value.type)}", value.span, hint)
    return None


def decided(ctx: Context, node: ast.Comptime, word: str) -> bool | None:
    """The value of a condition that is known before the first hit: only one side of it is looked at."""
    chosen = condition(ctx, node, f"the condition of {word}", text=True)
    truth = None if chosen is None else constant(chosen)
    return None if truth is None else bool(truth)


def known_integer(ctx: Context, node: ast.Expr, what: str) -> int | None:
    """An expression that folds to an integer."""
    value = integer(ctx, node, what)
    number = None if value is None else constant(value)
    if value is not None and number is None:
        ctx.error(f"{what} must be a constant", value.span, "it is needed before the first hit")
    return number
