"""The key of a span, which its start and its end compute: `span:PROBE..PROBE by KEY`."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.scope.context import Context
from tracer.lang.types import INT64, BoolType, IntType, PointerType, StringType

_HINT = "a key is a number or a string, or several: by (pid, arg0)"


def until(ctx: Context) -> typed.Until:
    """The end of the span that is being checked."""
    unit = ctx.unit.until
    assert unit is not None
    (point,) = unit.points
    starts = _key(ctx)
    with ctx.at_end():
        ends = _key(ctx)
    by = ctx.unit.clause.by
    for start, end in zip(starts, ends, strict=False):
        if by is not None and start.type != end.type:
            what = f"the key of the span is {start.type} at its start, and {end.type} at its end"
            ctx.error(what, by.span, "give a string the same size, as in str(arg0, 64)")
    return typed.Until(unit.kind, point.text, point.span, unit.sites, (starts, ends))


def _key(ctx: Context) -> tuple[typed.Expr, ...]:
    by = ctx.unit.clause.by
    whole = None if by is None else ctx.expr(by)
    if whole is None:
        return ()
    parts = whole.items if isinstance(whole, typed.TupleExpr) else (whole,)
    key: list[typed.Expr] = []
    for part in parts:
        match part.type:
            case IntType() | BoolType() | PointerType():
                key.append(part if part.type == INT64 else typed.Cast(INT64, part.span, part))
            case StringType():
                key.append(part)
            case _:
                ctx.error("this cannot be the key of a span", part.span, _HINT)
    return tuple(key)
