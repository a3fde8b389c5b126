"""Statements but assignments: blocks, scopes, control flow, calls."""

from __future__ import annotations

from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.builtins.registry import FUNCTIONS
from tracer.lang.check.assignments import assign, let
from tracer.lang.check.expressions import calls, maps
from tracer.lang.check.expressions.operands import condition, decided, integer, known_integer
from tracer.lang.check.unroll import UNROLL_MOST, Unroll
from tracer.lang.fold import convert
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import INT64, IntType, TupleType, Type


def statements(ctx: Context, nodes: tuple[ast.Stmt, ...]) -> tuple[typed.Stmt, ...]:
    """Statements in the scope that is open."""
    checked: list[typed.Stmt] = []
    reached = True
    for node, before in zip(nodes, (None, *nodes), strict=False):
        if reached and before is not None and _leaves(before):
            reached = False
            ctx.warn("this statement is never reached", node.span, "what stands before it leaves the block")
        checked += statement(ctx, node)
    return tuple(checked)


def _leaves(node: ast.Stmt) -> bool:
    """Whether no statement after this one runs."""
    match node:
        case ast.Return() | ast.Break() | ast.Continue():
            return True
        case ast.ExprStmt(expr=ast.Call(name="exit")):
            return True
        case ast.Block(body=body):
            return any(map(_leaves, body))
        case ast.If(then=then, otherwise=otherwise):
            return any(map(_leaves, then)) and any(map(_leaves, otherwise))
    return False


def block(ctx: Context, nodes: tuple[ast.Stmt, ...], loop: str | None = None) -> tuple[typed.Stmt, ...]:
    """The statements of a block, in a scope of their own."""
    with ctx.scope(loop):
        return statements(ctx, nodes)


def statement(ctx: Context, node: ast.Stmt) -> tuple[typed.Stmt, ...]:
    """The typed statements of one statement: several for a block, none if it is wrong."""
    match node:
        case ast.Assign():
            return assign(ctx, node)
        case ast.Let():
            return let(ctx, node)
        case ast.ExprStmt():
            return _expression(ctx, node)
        case ast.Block():
            with ctx.scope(call=(node.callee, node.span) if node.callee else None):
                return statements(ctx, node.body)
        case ast.If(condition=ast.Comptime() as comptime):
            side = decided(ctx, comptime, node.word)
            return () if side is None else block(ctx, node.then if side else node.otherwise)
        case ast.If():
            chosen = condition(ctx, node.condition, f"the condition of {node.word}", text=True)
            then, otherwise = block(ctx, node.then), block(ctx, node.otherwise)
            return () if chosen is None else (typed.If(node.span, chosen, then, otherwise),)
        case ast.While():
            chosen = condition(ctx, node.condition, "the condition of while", text=True)
            body = block(ctx, node.body, "loop")
            return () if chosen is None else (typed.While(node.span, chosen, body),)
        case ast.Unroll():
            return _unroll(ctx, node)
        case ast.ForRange():
            return _for_range(ctx, node)
        case ast.ForMap():
            return _for_map(ctx, node)
        case ast.Return():
            if node.value is not None:
                integer(ctx, node.value, "the value of return")
            return (typed.Return(node.span),)
        case ast.Break():
            return (typed.Break(node.span),) if _in_loop(ctx, "break", node.span) else ()
        case ast.Continue():
            return (typed.Continue(node.span),) if _in_loop(ctx, "continue", node.span) else ()
    raise AssertionError(f"unknown statement {type(node).__name__}")


def _expression(ctx: Context, node: ast.ExprStmt) -> tuple[typed.Stmt, ...]:
    expr = node.expr
    if isinstance(expr, ast.Call) and expr.name in FUNCTIONS and FUNCTIONS[expr.name].role == "statement":
        return calls.effect(ctx, expr)
    if isinstance(expr, ast.BlockExpr) and expr.value is not None and _effect(expr.value):
        with ctx.scope(call=(expr.callee, expr.span) if expr.callee else None):
            return (*statements(ctx, expr.body), *_expression(ctx, ast.ExprStmt(expr.value.span, expr.value)))
    value = ctx.expr(expr)
    if value is None:
        return ()
    if isinstance(value, typed.MapIncr):
        assert isinstance(value.type, IntType)
        step = value.delta if value.type.signed else value.delta % (1 << value.type.bits)
        return (typed.MapAdd(node.span, value.map, value.key, typed.IntLit(value.type, value.span, step)),)
    if isinstance(value, typed.Deleted):
        return (typed.Delete(node.span, value.map, value.key),)
    acts = expr.acts if isinstance(expr, ast.BlockExpr) else isinstance(expr, ast.Call) and FUNCTIONS[expr.name].acts
    if not isinstance(value, typed.VarIncr) and not node.discarded and not acts:
        ctx.warn("the value is not used", node.span, "assign it, or print it with print()")
    return (typed.ExprStmt(node.span, value),)


def _effect(expr: ast.Expr) -> bool:
    """Whether it is a call without a value, or a block that ends in one: `m({ printf("hi") })`, `macro m(x) { x; }`."""
    if isinstance(expr, ast.BlockExpr):
        return expr.value is not None and _effect(expr.value)
    return isinstance(expr, ast.Call) and expr.name in FUNCTIONS and FUNCTIONS[expr.name].role == "statement"


# --- loops


def _in_loop(ctx: Context, word: str, span: Span) -> bool:
    if ctx.loops and ctx.loops[-1] == "loop":
        return True
    if ctx.loops:
        what = f"{word} is not possible in unroll"
        ctx.error(what, span, "unroll repeats its statements, it is no loop: use for")
    else:
        ctx.error(f"{word} outside a loop", span, "return ends the clause")
    return False


def _unroll(ctx: Context, node: ast.Unroll) -> tuple[typed.Stmt, ...]:
    count = known_integer(ctx, node.count, "the count of unroll")
    if count is None:
        return ()
    if not 1 <= count <= UNROLL_MOST:
        ctx.error(f"unroll takes a count from 1 to {UNROLL_MOST}, not {count}", node.count.span)
        return ()
    return (Unroll(node.span, count, block(ctx, node.body, "unroll"), max(1, len(node.body))),)


def _loop_variable(ctx: Context, node: ast.ForRange | ast.ForMap, type: Type) -> int:
    """Declares the variable of a loop in the scope that is open; gives its slot."""
    name, span = node.target.name, node.target.span
    outer = ctx.lookup(name)
    if outer is not None:
        ctx.error(f"{name} is a variable already, from {ctx.position_of(outer.span)}", span, "use another name")
    variable = ctx.declare(name, node, span)
    ctx.facts.variable(variable.key).add(type, span)
    return variable.slot


def _for_range(ctx: Context, node: ast.ForRange) -> tuple[typed.Stmt, ...]:
    start = integer(ctx, node.start, "the start of the range")
    stop = integer(ctx, node.stop, "the end of the range")
    with ctx.scope():
        slot = _loop_variable(ctx, node, INT64)
        body = block(ctx, node.body, "loop")
    if start is None or stop is None:
        return ()
    return (typed.ForRange(node.span, slot, convert(start, INT64), convert(stop, INT64), body),)


def _for_map(ctx: Context, node: ast.ForMap) -> tuple[typed.Stmt, ...]:
    pair = _pair(ctx, node.map)
    if pair is None:
        return ()
    with ctx.scope():
        slot = _loop_variable(ctx, node, pair)
        body = block(ctx, node.body, "loop")
    return (typed.ForMap(node.span, slot, node.map.name, body),)


def _pair(ctx: Context, node: ast.MapRef) -> TupleType | None:
    """The type of the loop's variable: key and value."""
    name, span = node.name, node.span
    if not maps.defined(ctx, node):
        return None
    facts = ctx.known_facts.maps[name]
    if facts.key == ():
        ctx.error(f"{name} has no keys to go over", span, f"{name} is its one value")
        return None
    if facts.kind is not None and facts.kind in AGGREGATIONS and not AGGREGATIONS[facts.kind].single:
        what = f"{name} is a {AGGREGATIONS[facts.kind].shown}, which has no single values"
        ctx.error(what, span, f"print({name}) prints all of it")
        return None
    value = facts.type()
    if facts.key is None or value is None:
        return None
    return TupleType((facts.key[0] if len(facts.key) == 1 else TupleType(facts.key), value))
