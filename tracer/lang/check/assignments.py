"""Assignments to variables and maps, aggregations included."""

from __future__ import annotations

from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.check.expressions import calls, maps
from tracer.lang.check.expressions.operators import amount, binary, warn_of_bend
from tracer.lang.check.expressions.typenames import named
from tracer.lang.fold import constant, convert, fold
from tracer.lang.scope.context import Context, Variable
from tracer.lang.syntax import ast
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    BoolType,
    EnumType,
    IntType,
    PointerType,
    StringType,
    TupleType,
    Type,
    is_block,
    memory_size,
)
from tracer.lang.types.combine import LITERAL, a_type, say, stored, wide


def assign(ctx: Context, node: ast.Assign) -> tuple[typed.Stmt, ...]:
    """`target op value`."""
    last = node.value
    while isinstance(last, ast.BlockExpr) and last.value is not None:
        last = last.value
    if isinstance(last, ast.Call) and is_aggregation(last):
        return _aggregate(ctx, node, last)
    if isinstance(node.target, ast.MapRef):
        return _assign_map(ctx, node, node.target)
    return _assign_variable(ctx, node, node.target)


def _assign_variable(ctx: Context, node: ast.Assign, target: ast.Var) -> tuple[typed.Stmt, ...]:
    value = ctx.expr(node.value)
    variable = ctx.lookup(target.name)
    if variable is not None:
        ctx.facts.variable(variable.key).targeted = True
    if node.op != "=":
        old = ctx.expr(target)
        if value is None or old is None or variable is None:
            if variable is not None and value is not None and isinstance(value.type, IntType):
                ctx.facts.variable(variable.key).add_weak(_weak(node.op, value.type), node.span)
            return ()
        combined = _combine(ctx, node, old, value)
        if combined is None:
            return ()
        assert isinstance(value.type, (IntType, BoolType))
        ctx.facts.variable(variable.key).add_weak(_weak(node.op, value.type), node.span)
        return (typed.VarSet(node.span, variable.slot, convert(combined, old.type)),)
    if variable is None:
        variable = ctx.declare(target.name, node, target.span)
    return _set_variable(ctx, node.span, variable, value)


def _set_variable(
    ctx: Context, span: Span, variable: Variable, value: typed.Expr | None
) -> tuple[typed.Stmt, ...]:
    facts = ctx.facts.variable(variable.key)
    facts.targeted = True
    if value is None:
        return ()
    conflict = facts.add(value.type, span)
    if conflict is not None:
        where = ctx.position_of(facts.span)
        what = f"{variable.name} is assigned {a_type(value.type)} here, but {a_type(conflict)} at {where}"
        if isinstance(value.type, StringType) and isinstance(conflict, StringType):
            what = f"{variable.name} is a {conflict}, which cannot hold a {value.type}"
        ctx.error(what, value.span, maps.mismatch_hint(value.type, conflict))
        return ()
    type = ctx.variable_type(variable)
    if type is None:
        return ()
    number = constant(value)
    if facts.fixed and number is not None and constant(convert(value, type)) != number:
        what = f"{variable.name} is {a_type(type)}, which cannot hold {number}"
        ctx.error(what, value.span, f"write ({type}){ctx.text(value.span)} to cut it")
        return ()
    return (typed.VarSet(span, variable.slot, _fit(ctx, value, type)),)


def _fit(ctx: Context, value: typed.Expr, type: Type) -> typed.Expr:
    """A conversion that may meet types of an unfinished pass."""
    warn_of_bend(ctx, value, type)
    try:
        return convert(value, type)
    except ValueError:
        return value


def let(ctx: Context, node: ast.Let) -> tuple[typed.Stmt, ...]:
    """`let $x`, which is 0 or empty until it is assigned, and `let $x = value`."""
    name = node.target.name
    value = ctx.expr(node.value) if node.value is not None else None
    outer = ctx.lookup(name)
    if outer is not None:
        ctx.error(
            f"{name} is a variable already, from {ctx.position_of(outer.span)}", node.target.span, "use another name"
        )
        return ()
    variable = ctx.declare(name, node, node.target.span)
    if node.type is not None:
        declared = _declared(ctx, node.type)
        if declared is None:
            return ()
        facts = ctx.facts.variable(variable.key)
        facts.add(declared, node.type.span)
        facts.writes -= 1
        facts.fixed = node.type.name != "string" or bool(node.type.suffixes)
    if node.value is not None:
        return _set_variable(ctx, node.span, variable, value)
    facts_before = ctx.known_facts.variables.get(variable.key)
    if (facts_before is None or not facts_before.writes) and not ctx.calls:
        ctx.warn(f"{name} is never assigned", node.span, "it stays 0 or empty")
    type = ctx.variable_type(variable)
    if type is None:
        return ()
    empty = _empty(type, node.span)
    if empty is None:
        ctx.error(
            f"{name} needs a first value: there is no empty {say(type)}", node.span, f"write let {name} = …;"
        )
        return ()
    return (typed.VarSet(node.span, variable.slot, empty),)


def _declared(ctx: Context, type: ast.TypeName) -> Type | None:
    if type.name == "string" and not type.suffixes:
        return StringType(1)
    return named(ctx, type)


def _assign_map(ctx: Context, node: ast.Assign, target: ast.MapRef) -> tuple[typed.Stmt, ...]:
    key = maps.key(ctx, target.name, target.key, target.span)
    value = ctx.expr(node.value)
    if not maps.hold(ctx, target, "scalar") or key is None or value is None:
        return ()
    if node.op != "=":
        return _compound_map(ctx, node, target, key, value)
    type = ctx.map_type(target.name)
    of_aggregation = isinstance(value, typed.MapGet) and ctx.known_facts.maps[value.map].kind != "scalar"
    if not (isinstance(node.value, ast.MapRef) and of_aggregation):
        maps.assigned_value(ctx, target, value.type, value.span)
    elif type is None:
        what = f"{ctx.text(value.span)} is an aggregation, whose value needs a cast here"
        ctx.error(what, value.span, f"write {target.name} = (int64){ctx.text(value.span)};")
    return () if type is None else (typed.MapSet(node.span, target.name, key, _fit(ctx, value, type)),)


def _compound_map(
    ctx: Context, node: ast.Assign, target: ast.MapRef, key: tuple[typed.Expr, ...], value: typed.Expr
) -> tuple[typed.Stmt, ...]:
    if isinstance(value.type, (IntType, BoolType)):
        weak = stored(_weak(node.op, value.type))
        assert isinstance(weak, IntType)
        ctx.facts.map(target.name).value.add_weak(weak, node.span)
    type = ctx.map_type(target.name)
    if type is None:
        return ()
    combined = _combine(ctx, node, typed.MapGet(type, target.span, target.name, key), value)
    if combined is None:
        return ()
    if node.op not in ("+=", "-=") or not isinstance(type, IntType):
        return (typed.MapSet(node.span, target.name, key, convert(combined, type)),)
    added = convert(amount(ctx, type, value), type)
    if node.op == "-=":
        added = fold(typed.Unary(type, value.span, "-", added))
    return (typed.MapAdd(node.span, target.name, key, added),)


def _combine(ctx: Context, node: ast.Assign, old: typed.Expr, value: typed.Expr) -> typed.Expr | None:
    """`old op value` of a compound assignment, which means what `old = old op value` does."""
    if not isinstance(old.type, IntType | BoolType):
        ctx.error(f"'{node.op}' needs an integer, {ctx.text(old.span)} is {a_type(old.type)}", node.span)
        return None
    combined = binary(ctx, node.op[:-1], old, value, node.span)
    if combined is None or all(isinstance(old.type, kind) == isinstance(combined.type, kind) for kind in _APART):
        return combined
    what = f"{ctx.text(old.span)} is {a_type(old.type)}, and '{node.op}' makes {a_type(combined.type)} of it here"
    ctx.error(what, node.span)
    return None


_APART = (PointerType, BoolType)
"""Types that a value of another cannot be assigned to."""


def is_aggregation(node: ast.Call) -> bool:
    """Whether the function called is an aggregation."""
    return node.name in AGGREGATIONS


def _aggregate(ctx: Context, node: ast.Assign, call: ast.Call) -> tuple[typed.Stmt, ...]:
    target = node.target
    kind = call.name
    function = calls.function_of(ctx, call)
    if function is None:
        if isinstance(target, ast.MapRef):
            ctx.facts.map(target.name).kind = ctx.facts.map(target.name).kind or kind
        return ()
    if not isinstance(target, ast.MapRef) or node.op != "=":
        name = target.name if isinstance(target, ast.MapRef) else "@name"
        what = f"{call.name}() can only be assigned to a map, with '='"
        ctx.error(what, node.span, f"write {name} = {function.call};")
        return ()
    key = maps.key(ctx, target.name, target.key, target.span)
    return _aggregated(ctx, node.value, target, key, node.span)


def _aggregated(
    ctx: Context, value: ast.Expr, target: ast.MapRef, key: tuple[typed.Expr, ...] | None, span: Span
) -> tuple[typed.Stmt, ...]:
    """The aggregation, and before it the statements of the blocks at whose end it stands."""
    if isinstance(value, ast.BlockExpr):
        assert value.value is not None
        with ctx.scope(call=(value.callee, value.span) if value.callee else None):
            return (*ctx.statements(value.body), *_aggregated(ctx, value.value, target, key, span))
    assert isinstance(value, ast.Call)
    kind, function = value.name, calls.function_of(ctx, value)
    assert function is not None
    checked = calls.arguments(ctx, value, function)
    parameters = AGGREGATIONS[kind].parameters(checked)
    if not maps.hold(ctx, target, kind, parameters or ()) or parameters is None:
        return ()
    if not value.args:
        ctx.facts.map(target.name).value.add(INT64, span)
        return () if key is None else (typed.Aggregate(span, target.name, key, kind, None),)
    operand = checked.args[0]
    if operand is None:
        return ()
    facts = ctx.facts.map(target.name).value
    type = stored(operand.type if isinstance(operand.type, IntType) else LITERAL)
    type = wide(type) if isinstance(type, EnumType) else type  # a sum of such is none
    conflict = facts.add(type, operand.span)
    if conflict is not None:
        what = f"{target.name} takes {say(type)} values here, but {say(conflict)} at {ctx.position_of(facts.span)}"
        ctx.error(what, operand.span, maps.mismatch_hint(type, conflict))
        return ()
    settled = ctx.known_facts.maps[target.name].value.type() if target.name in ctx.known_facts.maps else None
    if key is None or settled is None:
        return ()
    warn_of_bend(ctx, operand, settled)
    return (typed.Aggregate(span, target.name, key, kind, convert(operand, settled)),)


def _weak(op: str, type: Type) -> IntType:
    """The type that a compound assignment asks of its target."""
    if op == "-=":
        return INT64
    return wide(type) if isinstance(type, IntType) and type != LITERAL else LITERAL


def _empty(type: Type, span: Span) -> typed.Expr | None:
    """The value of a variable that has not been assigned."""
    match type:
        case IntType():
            return typed.IntLit(type, span, 0)
        case BoolType():
            return typed.BoolLit(BOOL, span, False)
        case StringType():
            return convert(typed.StrLit(StringType(1), span, b""), type)
        case TupleType():
            items = [_empty(item, span) for item in type.items]
            return typed.TupleExpr(type, span, tuple(item for item in items if item)) if all(items) else None
        case _ if is_block(type):
            words, rest = divmod(memory_size(type), 8)
            zeros = [typed.IntLit(UINT64, span, 0)] * words + [typed.IntLit(IntType(8, False), span, 0)] * rest
            return typed.Pack(type, span, tuple(zeros))
    return None
