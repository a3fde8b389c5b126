"""The pass that repeats the body of `unroll`, once all types are known."""

from __future__ import annotations

from tracer.dataclass import dataclass, replace
from tracer.lang import typed
from tracer.lang.scope.context import Context
from tracer.lang.walk import Node, rewrite, walk

UNROLL_MOST = 100
UNROLLED_MOST = 5000
"""How many statements all `unroll` of a clause may make together."""


@dataclass(frozen=True, slots=True)
class Unroll(typed.Stmt):
    """`unroll (count) { body }`, whose body was written with `size` statements. No later pass sees one."""

    count: int
    body: tuple[typed.Stmt, ...]
    size: int


def unrolled(
    ctx: Context, predicate: typed.Expr | None, body: tuple[typed.Stmt, ...]
) -> tuple[typed.Expr | None, tuple[typed.Stmt, ...]]:
    """A clause without `Unroll`; reports it where that makes too many statements."""
    nodes: tuple[Node, ...] = (*body, predicate) if predicate is not None else body
    if not any(isinstance(part, Unroll) for node in nodes for part in walk(node)):
        return predicate, body
    count = [0]

    def inside(node: Node) -> Node:
        if isinstance(node, typed.BlockExpr):
            return replace(node, body=tuple(_repeated(ctx, node.body, count)))
        return node

    predicate = None if predicate is None else rewrite(predicate, inside)
    return predicate, tuple(_repeated(ctx, tuple([rewrite(node, inside) for node in body]), count))


def _repeated(ctx: Context, body: tuple[typed.Stmt, ...], count: list[int]) -> list[typed.Stmt]:
    result: list[typed.Stmt] = []
    for node in body:
        match node:
            case Unroll():
                for _ in range(node.count):
                    result += _repeated(ctx, node.body, count)
                    count[0] += node.size
                    if count[0] > UNROLLED_MOST:
                        what = f"unroll makes more than {UNROLLED_MOST} statements"
                        ctx.error(what, node.span, "use for ($i : 0..n) { … }")
                        break
            case typed.If():
                then = tuple(_repeated(ctx, node.then, count))
                result.append(replace(node, then=then, otherwise=tuple(_repeated(ctx, node.otherwise, count))))
            case typed.While() | typed.ForRange() | typed.ForMap():
                result.append(replace(node, body=tuple(_repeated(ctx, node.body, count))))
            case _:
                result.append(node)
    return result
