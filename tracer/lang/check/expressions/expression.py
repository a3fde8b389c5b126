"""Expressions: their types and the conversions they imply. What is constant is folded as it is made."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Fault, Span
from tracer.lang import typed
from tracer.lang.check.expressions import calls, maps, memory
from tracer.lang.check.expressions.operands import condition, decided, integer, known_integer, present
from tracer.lang.check.expressions.operators import binary, warn_of_bend
from tracer.lang.check.expressions.typenames import named
from tracer.lang.fold import constant, convert, fold, known_now, literal, string
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.syntax.lexer import number
from tracer.lang.types import (
    BOOL,
    INT64,
    EnumType,
    FloatType,
    IntType,
    PointerType,
    TupleType,
    VariablePointer,
)
from tracer.lang.types.combine import LITERAL, a_type, inverted, join

_OF_THE_END = frozenset(("after", "retval", "probe", "func", "file", "line"))
"""The words of a span that are about its second probe, where its clause runs."""


def expr(ctx: Context, node: ast.Expr) -> typed.Expr | None:
    """A typed expression."""
    if ctx.unit.until is not None and isinstance(node, ast.Name | ast.Call) and node.name in _OF_THE_END:
        with ctx.at_end():
            return expr(ctx, node)
    match node:
        case ast.IntLit():
            return literal(node.value, node.span)
        case ast.DecimalLit():
            hint = "compute in a smaller unit: 1500us, not 1.5ms"
            ctx.error("numbers with a fraction are not supported", node.span, hint)
            return None
        case ast.BoolLit():
            return typed.BoolLit(BOOL, node.span, node.value)
        case ast.StrLit():
            return string(node.value.partition(b"\0")[0], node.span)
        case ast.Param():
            return _param(ctx, node)
        case ast.Name():
            return _computable(ctx, calls.name(ctx, node))
        case ast.Var():
            return _variable(ctx, node)
        case ast.MapRef():
            return maps.read(ctx, node)
        case ast.Call():
            return calls.call(ctx, node)
        case ast.Unary(op="*"):
            operand = expr(ctx, node.operand)
            return None if operand is None else memory.pointed(ctx, operand, node.span)
        case ast.Unary(op="&", operand=ast.Var() as target):
            return _address(ctx, target, node.span)
        case ast.Unary(op="&", operand=ast.MapRef() as named_map):
            return maps.address(ctx, named_map, node.span)
        case ast.Unary():
            return _unary(ctx, node)
        case ast.IncDec():
            return _increment(ctx, node)
        case ast.Binary():
            left, right = expr(ctx, node.left), expr(ctx, node.right)
            if node.op == "+" and left is not None and right is not None:
                text, skipped = (left, right) if isinstance(left, typed.StrLit) else (right, left)
                if isinstance(text, typed.StrLit) and isinstance(skipped, typed.IntLit) and skipped.value >= 0:
                    if skipped.value >= len(text.value):
                        ctx.warn(f"a text of {len(text.value)} bytes has no byte {skipped.value}", node.span)
                    return string(text.value[skipped.value :], node.span)
            return None if left is None or right is None else binary(ctx, node.op, left, right, node.span)
        case ast.Ternary():
            return _ternary(ctx, node)
        case ast.BlockExpr():
            return _block(ctx, node)
        case ast.Comptime():
            return _comptime(ctx, node)
        case ast.Cast():
            return _cast(ctx, node)
        case ast.TypeExpr():
            ctx.error(f"'{ctx.text(node.span)}' is a type, not a value", node.span, "a cast is written (type)value")
            return None
        case ast.TupleExpr():
            items = present([expr(ctx, item) for item in node.items])
            if items is None:
                return None
            whole = TupleType(tuple([item.type for item in items]), node.names)
            return typed.TupleExpr(whole, node.span, tuple(items))
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
        f"{name} is {a_type(value.type)}, and a floating-point number can only be shown so far",
        value.span,
        f'print({name}) and printf("%f", {name}) show it',
    )
    return None


# --- parameters and variables


def _param(ctx: Context, node: ast.Param) -> typed.Expr:
    """`$1`: a number where the argument is one, else a string; 0 where there is none, or an empty one."""
    if ctx.given:
        argument: typed.Expr = ctx.given[-1][node.index - 1]
        return argument
    if not node.text:
        hint = "it is a word behind the program on the command line"
        ctx.warn(f"${node.index} is {'empty' if node.text == '' else 'not given'}, so it is 0", node.span, hint)
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
        from tracer.lang import suggest
        from tracer.lang.foreign import words

        near = suggest.hint(node.name, names, "assign it first; a variable lives in the block that assigns it")
        hint = words.variable(node.name) or near
        ctx.error(f"{node.name} is used before it is assigned", node.span, hint)
        return None
    facts = ctx.known_facts.variables.get(variable.key)
    if ctx.final and facts is not None and facts.is_unknown:
        ctx.error(f"{node.name} is never assigned, and has no type", node.span, f"write let {node.name}: int64;")
        return None
    type = ctx.variable_type(variable)
    return None if type is None else typed.Var(type, node.span, variable.slot, node.name)


def _address(ctx: Context, node: ast.Var, span: Span) -> typed.Expr | None:
    """`&$x`."""
    value = expr(ctx, node)
    if value is None:
        return None
    assert isinstance(value, typed.Var)
    type = VariablePointer(target=value.type, slot=value.slot, name=node.name, held=value.type)
    return typed.IntLit(type, span, type.start)


# --- operators


def _unary(ctx: Context, node: ast.Unary) -> typed.Expr | None:
    operand = integer(ctx, node.operand, f"the operand of '{node.op}'")
    if operand is None:
        return None
    if node.op == "!":
        return fold(typed.Unary(BOOL, node.span, "!", operand))
    if isinstance(operand.type, PointerType) and node.op in ("-", "~"):
        hint = f"(uint64){ctx.text(operand.span)} is its address as a number"
        ctx.error(f"the operand of '{node.op}' must be an integer, not {a_type(operand.type)}", operand.span, hint)
        return None
    if node.op == "+":
        return operand
    value = constant(operand)
    if value is not None and node.op == "-" and (operand.type == LITERAL or isinstance(node.operand, ast.IntLit)):
        if value > 1 << 63:
            ctx.error(f"-{value} does not fit in 64 bits", node.span, f"the smallest number is {-(1 << 63)}")
            return None
        return literal(-value, node.span)
    type = INT64 if node.op == "-" else inverted(operand.type)
    return fold(typed.Unary(type, node.span, node.op, convert(operand, type)))


def _comptime(ctx: Context, node: ast.Comptime) -> typed.Expr | None:
    value = expr(ctx, node.operand)
    if value is not None and not isinstance(value, (typed.IntLit, typed.BoolLit, typed.StrLit)):
        ctx.error("comptime needs a value that is known before the first hit", node.operand.span)
        return None
    return value


def _ternary(ctx: Context, node: ast.Ternary) -> typed.Expr | None:
    if isinstance(node.condition, ast.Comptime):
        known_now = decided(ctx, node.condition, node.word)
        return None if known_now is None else expr(ctx, node.then if known_now else node.otherwise)
    chosen = condition(ctx, node.condition, f"the condition of {node.word}", text=True)
    then, otherwise = expr(ctx, node.then), expr(ctx, node.otherwise)
    if chosen is None or then is None or otherwise is None:
        return None
    type = join(then.type, otherwise.type)
    if type is None and (sure := constant(chosen)) is not None:
        return then if sure else otherwise
    if type is None:
        sides = f"{a_type(then.type)} on one side and {a_type(otherwise.type)} on the other"
        ctx.error(f"{node.word} has {sides}", node.span)
        return None
    for side in (then, otherwise):
        warn_of_bend(ctx, side, type)
    return fold(typed.Ternary(type, node.span, chosen, convert(then, type), convert(otherwise, type)))


def _block(ctx: Context, node: ast.BlockExpr) -> typed.Expr | None:
    if node.value is None:
        what = node.callee or "the block"
        hint = "it is void" if "function" in what else "write its value last, without a ;"
        ctx.error(f"{what} has no value", node.span, hint)
    with ctx.scope(call=(node.callee, node.span) if node.callee else None):
        body = ctx.statements(node.body)
        if node.value is None:
            return None
        value = expr(ctx, node.value)
    if value is None:
        return None
    return typed.BlockExpr(value.type, node.span, body, value) if body else replace(value, span=node.span)


def _increment(ctx: Context, node: ast.IncDec) -> typed.Expr | None:
    delta = 1 if node.op == "++" else -1
    if isinstance(node.target, ast.MapRef):
        return maps.increment(ctx, node, node.target, delta)
    assert isinstance(node.target, ast.Var)
    value = _variable(ctx, node.target)
    variable = ctx.lookup(node.target.name)
    if variable is None:
        return None
    facts = ctx.facts.variable(variable.key)
    facts.targeted = True
    facts.add_weak(LITERAL if delta > 0 else INT64, node.span)
    if value is None:
        return None
    if not isinstance(value.type, IntType):
        ctx.error(f"'{node.op}' needs an integer, {node.target.name} is {a_type(value.type)}", node.span)
        return None
    step = memory.step(ctx, value.type, node.span)
    return typed.VarIncr(value.type, node.span, variable.slot, delta * step, node.prefix)


# --- types


def _cast(ctx: Context, node: ast.Cast) -> typed.Expr | None:
    to, value = named(ctx, node.type), expr(ctx, node.operand)
    if to is None or value is None:
        return None
    if to == value.type and not (isinstance(to, EnumType) or ctx.calls) and _has_own_type(ctx, node.operand):
        ctx.warn(f"the cast is not needed: this is {a_type(to)} already", node.type.span, "leave it out")
    from tracer.lang.check.expressions.casts import converted

    return converted(ctx, value, to, node.span)


def _has_own_type(ctx: Context, node: ast.Expr) -> bool:
    """Whether an expression has its type in bpftrace and at all sites, so that a cast to it says nothing elsewhere."""
    if isinstance(node, ast.Name):
        if any(ctx.unit.reads("note", point) for point in ctx.unit.points):
            return False
        if node.name == "retval":
            return not (ctx.config.typed_retval or ctx.unit.reads("call"))
        return node.name.startswith("arg") and node.name[3:].isdigit()
    # A variable may hold a small literal or what a map counts, which are of other types in bpftrace; so may a tuple.
    return isinstance(node, ast.Cast) or (isinstance(node, ast.Field) and not node.name.isdigit())


def _field(ctx: Context, node: ast.Field) -> typed.Expr | None:
    if isinstance(node.operand, ast.Name) and node.operand.name == "args":
        from tracer.lang.check.expressions import parameters

        return parameters.named(ctx, node.name, node.span)
    if isinstance(node.operand, ast.Name) and node.operand.name == "vars":
        from tracer.lang.check.expressions import variables

        return variables.named(ctx, "vars", node.name, node.span)
    if isinstance(node.operand, ast.Field):
        from tracer.lang.check.expressions import parameters

        if (held := parameters.part(ctx, node)) is not None:
            return held
    operand = expr(ctx, node.operand)
    if operand is None:
        return None
    if isinstance(operand.type, TupleType):
        return _item(ctx, node, operand, node.name)
    return memory.member(ctx, operand, node.name, node.span)


def _index(ctx: Context, node: ast.Index) -> typed.Expr | None:
    operand = expr(ctx, node.operand)
    if operand is None:
        return None
    if isinstance(operand.type, TupleType):
        index = known_integer(ctx, node.index, "the index of a tuple")
        return None if index is None else _item(ctx, node, operand, str(index))
    index_at = integer(ctx, node.index, "an index")
    return None if index_at is None else memory.element(ctx, operand, index_at, node.span)


def _item(ctx: Context, node: ast.Expr, operand: typed.Expr, name: str) -> typed.Expr | None:
    assert isinstance(operand.type, TupleType)
    items, names = operand.type.items, operand.type.names
    if name in names:
        index = names.index(name)
    elif not name.removeprefix("-").isdigit():
        from tracer.lang import suggest

        hint = suggest.hint(name, names, f"it has {', '.join(names)}" if names else "its items have numbers: (1, 2).0")
        ctx.error(f"{'the record' if names else a_type(operand.type)} has no field '{name}'", node.span, hint)
        return None
    else:
        index = int(name[:9])
    if not 0 <= index < len(items):
        ctx.error(f"there is no item {index} in a tuple of {len(items)}", node.span, "items are counted from 0")
        return None
    if isinstance(operand, typed.TupleExpr) and all(known_now(item) is not None for item in operand.items):
        return replace(operand.items[index], span=node.span)
    return typed.TupleItem(items[index], node.span, operand, index)
