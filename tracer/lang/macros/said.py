"""Functions that are said in the language itself, as those of bpftrace's `stdlib` are (`constructs.said`).

The function's object has checked the arguments before, so every fault is one of the call. The text is parsed where the
function is called, and all that it says stands at the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tracer.dataclass import replace
from tracer.errors import Source, Span
from tracer.lang import typed
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.syntax.parser import parse
from tracer.lang.walk import rewrite


def evaluated(
    context: Context, text: str, span: Span, args: Sequence[Any]
) -> typed.Expr | tuple[typed.Stmt, ...] | None:
    """The statements of a text, or the value of its expression, with the arguments of a call for `$1`, `$2`, …"""
    body = placed(text, span)
    context.given.append(args)
    try:
        if isinstance(body[0], ast.ExprStmt) and body[0].last:
            return context.expr(body[0].expr)
        return context.statements(body)
    finally:
        context.given.pop()


@lru_cache(maxsize=256)
def placed(text: str, span: Span) -> tuple[ast.Stmt, ...]:
    """The statements of a text, all of which stand at a place of the program."""

    def here(node: Any) -> Any:
        return replace(node, span=span)

    return tuple([rewrite(statement, here) for statement in parse(Source(f"BEGIN {{ {text} }}")).clauses[0].body])
