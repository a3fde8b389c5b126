"""Expressions: their types and the conversions they imply. What is constant is folded as it is made."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Fault
from tracer.lang import suggest, typed, unsupported
from tracer.lang.check import calls, maps
from tracer.lang.check.context import Context
from tracer.lang.check.operands import condition, integer, known, present
from tracer.lang.check.operators import binary
from tracer.lang.fold import cast, constant, convert, fold, literal, string
from tracer.lang.syntax import ast
from tracer.lang.syntax.lexer import number
from tracer.lang.types import (
    BOOL,
    INT64,
    INTEGER_TYPES,
    UINT64,
    BoolType,
    FloatType,
    IntType,
    TupleType,
)
from tracer.lang.types.combine import LITERAL, a, inverted, join


def expr(ctx: Context, node: ast.Expr) -> typed.Expr | None:
    """A typed expression."""
    match node:
        case ast.IntLit():
            return literal(node.value, node.span)
        case ast.BoolLit():
            return typed.BoolLit(BOOL, node.span, node.value)
        case ast.StrLit():
            return string(node.value, node.span)
        case ast.Param():
            return _param(node)
        case ast.Name():
            return _computable(ctx, calls.name(ctx, node))
        case ast.Var():
            return _variable(ctx, node)
        case ast.MapRef():
            return maps.read(ctx, node)
        case ast.Call():
            return calls.call(ctx, node)
        case ast.Unary(op="*"):
            return _load(ctx, node)
        case ast.Unary():
            return _unary(ctx, node)
        case ast.IncDec():
            return _increment(ctx, node)
        case ast.Binary():
            left, right = expr(ctx, node.left), expr(ctx, node.right)
            return None if left is None or right is None else binary(ctx, node.op, left, right, node.span)
        case ast.Ternary():
            return _ternary(ctx, node)
        case ast.Cast():
            return _cast(ctx, node)
        case ast.TupleExpr():
            items = present([expr(ctx, item) for item in node.items])
            if items is None:
                return None
            return typed.TupleExpr(TupleType(tuple(item.type for item in items)), node.span, tuple(items))
        case ast.Field():
            return _field(ctx, node)
        case ast.Index():
            return _index(ctx, node)
    raise AssertionError(f"unknown node {type(node).__name__}")


def _computable(ctx: Context, value: typed.Expr | None) -> typed.Expr | None:
    if value is None or not isinstance(value.type, FloatType):
        return value
    name = ctx.text(value.span)
    ctx.error(
        f"{name} is {a(value.type)}, and a floating-point number can only be shown so far",
        value.span,
        f'print({name}) and printf("%f", {name}) show it',
    )
    return None


# --- parameters and variables


def _param(node: ast.Param) -> typed.Expr:
    """`$1`: a number where the argument is one, else a string; 0 where there is none."""
    if node.text is None:
        return typed.IntLit(LITERAL, node.span, 0)
    digits = node.text.removeprefix("-")
    try:
        value = number(digits, node.span)
    except Fault:
        return string(node.bytes(), node.span)
    return literal(-value if digits != node.text else value, node.span)


def _variable(ctx: Context, node: ast.Var) -> typed.Expr | None:
    variable = ctx.lookup(node.name)
    if variable is None:
        names = {name for scope in ctx.scopes for name in scope}
        hint = suggest.hint(node.name, names, "assign it first; a variable lives in the block that assigns it")
        ctx.error(f"{node.name} is used before it is assigned", node.span, hint)
        return None
    type = ctx.variable_type(variable)
    return None if type is None else typed.Var(type, node.span, variable.slot, node.name)


# --- operators


def _unary(ctx: Context, node: ast.Unary) -> typed.Expr | None:
    operand = integer(ctx, node.operand, f"the operand of '{node.op}'")
    if operand is None:
        return None
    if node.op == "!":
        return fold(typed.Unary(BOOL, node.span, "!", operand))
    value = constant(operand)
    if value is not None and node.op == "-" and (operand.type == LITERAL or isinstance(node.operand, ast.IntLit)):
        if value > 1 << 63:
            ctx.error(f"-{value} does not fit in 64 bits", node.span, f"the smallest number is {-(1 << 63)}")
            return None
        return literal(-value, node.span)
    type = INT64 if node.op == "-" else inverted(operand.type)
    return fold(typed.Unary(type, node.span, node.op, convert(operand, type)))


def _ternary(ctx: Context, node: ast.Ternary) -> typed.Expr | None:
    chosen = condition(ctx, node.condition, "the condition of '?'")
    then, otherwise = expr(ctx, node.then), expr(ctx, node.otherwise)
    if chosen is None or then is None or otherwise is None:
        return None
    type = join(then.type, otherwise.type)
    if type is None and isinstance(then.type, IntType) and isinstance(otherwise.type, IntType):
        type = INT64
    if type is None:
        ctx.error(f"'?' has {a(then.type)} on one side and {a(otherwise.type)} on the other", node.span)
        return None
    return fold(typed.Ternary(type, node.span, chosen, convert(then, type), convert(otherwise, type)))


def _increment(ctx: Context, node: ast.IncDec) -> typed.Expr | None:
    delta = 1 if node.op == "++" else -1
    if isinstance(node.target, ast.MapRef):
        return maps.increment(ctx, node, node.target, delta)
    assert isinstance(node.target, ast.Var)
    value = _variable(ctx, node.target)
    variable = ctx.lookup(node.target.name)
    if variable is None:
        return None
    ctx.found.variable(variable.key).add_weak(LITERAL, node.span)
    if value is None:
        return None
    if not isinstance(value.type, IntType):
        ctx.error(f"'{node.op}' needs an integer, {node.target.name} is {a(value.type)}", node.span)
        return None
    return typed.VarIncr(value.type, node.span, variable.slot, delta, node.prefix)


# --- types


def _cast(ctx: Context, node: ast.Cast) -> typed.Expr | None:
    to = cast_type(ctx, node.type)
    if node.type.pointer and to is not None:
        hint = f"read at once, as in *({node.type.name} *){ctx.text(node.operand.span)}"
        ctx.error("pointers are not values", node.type.span, hint)
        return None
    value = expr(ctx, node.operand)
    if to is None or value is None:
        return None
    if not isinstance(value.type, (IntType, BoolType)):
        ctx.error(f"{a(value.type)} cannot be cast to {to}", value.span)
        return None
    return replace(cast(value, to), span=node.span)


def cast_type(ctx: Context, node: ast.TypeName) -> IntType | BoolType | None:
    """The type that a cast names, reported where there is none."""
    if node.struct:
        message, hint = unsupported.phrase(f"'{node.name}'", unsupported.STATEMENTS["struct"])
        ctx.error(message, node.span, hint)
    elif node.array:
        ctx.error("arrays are not supported", node.span, "read the items one by one: *(uint8 *)(address + 1)")
    elif node.name in INTEGER_TYPES:
        return INTEGER_TYPES[node.name]
    elif node.name in ("string", "buffer", "inet", "void"):
        ctx.error(f"a cast to {node.name} is not supported", node.span, "str(addr) reads a string")
    else:
        hint = suggest.hint(node.name, INTEGER_TYPES, "known are bool, int8 to int64 and uint8 to uint64")
        ctx.error(f"unknown type '{node.name}'", node.span, hint)
    return None


def _load(ctx: Context, node: ast.Unary) -> typed.Expr | None:
    """`*(int32 *)address`, `*address`."""
    type: IntType = UINT64
    operand = node.operand
    if isinstance(operand, ast.Cast) and operand.type.pointer:
        to = cast_type(ctx, operand.type)
        if to is None:
            return None
        type = to if isinstance(to, IntType) else IntType(8, False)
        operand = operand.operand
    if not ctx.reads_memory(node.span, "memory is read where a probe is hit"):
        return None
    address = integer(ctx, operand, "an address")
    return None if address is None else typed.Load(type, node.span, convert(address, UINT64))


def _field(ctx: Context, node: ast.Field) -> typed.Expr | None:
    if isinstance(node.operand, ast.Name) and node.operand.name == "args":
        message, hint = unsupported.phrase(ctx.text(node.span), unsupported.BUILTINS["args"])
        ctx.error(message, node.span, hint)
        return None
    operand = expr(ctx, node.operand)
    if operand is None:
        return None
    if not node.name.isdigit():
        ctx.error(f"'.{node.name}': structs are not supported", node.span, unsupported.STATEMENTS["struct"][1])
        return None
    return _item(ctx, node, operand, int(node.name[:9]))


def _index(ctx: Context, node: ast.Index) -> typed.Expr | None:
    operand = expr(ctx, node.operand)
    if operand is None:
        return None
    if not isinstance(operand.type, TupleType):
        ctx.error("arrays are not supported", node.span, "read the items one by one: *(uint8 *)(address + 1)")
        return None
    index = known(ctx, node.index, "the index of a tuple")
    return None if index is None else _item(ctx, node, operand, index)


def _item(ctx: Context, node: ast.Expr, operand: typed.Expr, index: int) -> typed.Expr | None:
    if not isinstance(operand.type, TupleType):
        ctx.error(f"{a(operand.type)} has no items", node.span, "only tuples have: (1, 2).0")
        return None
    items = operand.type.items
    if not 0 <= index < len(items):
        ctx.error(f"there is no item {index} in a tuple of {len(items)}", node.span, "items are counted from 0")
        return None
    return typed.TupleItem(items[index], node.span, operand, index)
