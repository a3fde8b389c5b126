"""Typed expressions → values, and the steps that have to come before them."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.dataclass import replace
from tracer.lang import typed
from tracer.lang.builtins.registry import FUNCTIONS
from tracer.lang.types import BOOL, INT64, UINT64, BoolType, IntType, StackType, StringType, Type
from tracer.steps import arithmetic, memory
from tracer.steps.context import Context
from tracer.steps.model import (
    Argument,
    Const,
    If,
    MapAdd,
    MapHas,
    MapLength,
    Op,
    ReturnValue,
    SetSlot,
    SiteText,
    Value,
)

_FETCHED_AS = {"username": "uid", "elapsed": "nsecs"}


def value(ctx: Context, expr: typed.Expr) -> Value:
    """The value of an expression."""
    return ctx.kept(_value(ctx, expr))


def values(ctx: Context, exprs: Sequence[typed.Expr]) -> tuple[Value, ...]:
    """Several expressions, from left to right."""
    return tuple([value(ctx, expr) for expr in exprs])


def truth(ctx: Context, expr: typed.Expr) -> Value:
    """Whether an integer or bool is not 0."""
    return arithmetic.truth(value(ctx, expr))


def _value(ctx: Context, expr: typed.Expr) -> Value:
    match expr:
        case typed.IntLit(value=constant) | typed.BoolLit(value=constant) | typed.StrLit(value=constant):
            return Const(expr.type, constant)
        case typed.Builtin(name=name):
            return _built_in(ctx, expr, name)
        case typed.Arg(index=index):
            assert not isinstance(expr.type, StringType)
            return ctx.fetch(Argument(index, expr.type), expr.type, expr.span)  # type: ignore[arg-type]
        case typed.Retval():
            return ctx.fetch(ReturnValue(), UINT64, expr.span)
        case typed.Var(slot=slot):
            return ctx.slot(slot)
        case typed.Unary() | typed.Binary() | typed.Ternary() | typed.Cast():
            return _operator(ctx, expr)
        case typed.TupleExpr(items=items):
            return Op(expr.type, "tuple", values(ctx, items))
        case typed.TupleItem(operand=operand, index=index):
            whole = value(ctx, operand)
            if isinstance(whole, Op) and whole.op == "tuple":
                return whole.args[index]
            return Op(expr.type, "item", (whole, Const(INT64, index)))
        case typed.Load() | typed.Str() if (either := _at_either(expr)) is not None:
            condition, then, otherwise = either
            return ctx.choice(truth(ctx, condition), lambda: value(ctx, then), lambda: value(ctx, otherwise), expr.type)
        case typed.Load(address=address):
            place = value(ctx, address)
            if isinstance(expr.type, IntType):
                return memory.integer_at(ctx, place, expr.type, expr.span)
            return memory.block_at(ctx, place, expr.type, expr.span)
        case typed.Part(operand=operand, offset=offset):
            return Op(expr.type, "part", values(ctx, (operand, offset)))
        case typed.Pack(items=items):
            return Op(expr.type, "pack", values(ctx, items))
        case typed.Str(address=address, sized=sized, length=length):
            assert isinstance(expr.type, StringType)
            place = value(ctx, address)
            size = None if length is None else value(ctx, length)
            return memory.string_at(ctx, place, expr.type, sized, size, expr.span)
        case typed.UStack():
            assert isinstance(expr.type, StackType)
            ctx.ask("USER_STACK", "ustack", expr.span)
            return ctx.stack(expr.type, expr.span)
        case typed.USym(address=address):
            ctx.ask("SYMBOL", "usym()", expr.span)
            place = value(ctx, address)
            return Op(expr.type, "symbol", (ctx.built_in("pid", expr.span), place))
        case typed.Strftime(nanoseconds=nanoseconds):
            return Op(expr.type, "as", (value(ctx, nanoseconds),))
        case typed.VarIncr() | typed.MapIncr():
            return _increment(ctx, expr)
        case typed.MapGet() | typed.MapLen() | typed.HasKey():
            return _of_map(ctx, expr)
        case typed.Call(name=name):
            lower = FUNCTIONS[name].lower
            assert lower is not None, name
            lowered: Value = lower(ctx, expr)
            return lowered
        case _:
            raise TypeError(f"no such expression in the typed program: {type(expr).__name__}")


_Either = tuple[typed.Expr, typed.Expr, typed.Expr]
"""The condition, and what there is where it holds and where not."""


def _at_either(expr: typed.Load | typed.Str) -> _Either | None:
    """What is read at one of two addresses, as one of two reads: then each may be a part of the hit."""
    found = _either(expr.address)
    return found and (found[0], replace(expr, address=found[1]), replace(expr, address=found[2]))


def _either(address: typed.Expr) -> _Either | None:
    """One of two addresses, also with a constant added and cast."""
    match address:
        case typed.Ternary(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case typed.Cast(operand=operand):
            found = _either(operand)
            return found and (found[0], replace(address, operand=found[1]), replace(address, operand=found[2]))
        case typed.Binary(op="+" | "-", left=left, right=typed.IntLit() | typed.Cast(operand=typed.IntLit())):
            found = _either(left)
            return found and (found[0], replace(address, left=found[1]), replace(address, left=found[2]))
    return None


def _built_in(ctx: Context, expr: typed.Builtin, name: str) -> Value:
    if name in ("probe", "func"):
        if ctx.clause.kind == "probe":
            return SiteText(expr.type, name)
        text = ctx.clause.names[0] if name == "probe" and ctx.clause.names else ""
        return Const(expr.type, text.encode("utf-8", "surrogateescape"))
    if name in ("pid", "tid"):
        ctx.ask("NUMBERS", name, expr.span)
    elif name in ("uid", "gid", "username"):
        ctx.ask("UID", name, expr.span)
    if name == "comm":
        return ctx.built_in(name, expr.span, expr.type)
    read = ctx.built_in(_FETCHED_AS.get(name, name), expr.span)
    if name == "elapsed":
        return arithmetic.binary("-", read, ctx.built_in("started", expr.span), UINT64, ctx.once)
    return read if name != "username" else Op(expr.type, "as", (read,))


def _of_map(ctx: Context, expr: typed.MapGet | typed.MapLen | typed.HasKey) -> Value:
    match expr:
        case typed.MapGet(map=name, key=key):
            if ctx.program.maps[name].kind != "scalar":
                ctx.ask("AGGREGATION_READ", f"{name} as a value", expr.span)
            return ctx.map_value(name, values(ctx, key), expr.type, expr.span)
        case typed.MapLen(map=name):
            ctx.ask("MAP_LENGTH", f"len({name})", expr.span)
            length = ctx.name(UINT64)
            ctx.add(MapLength(length, name, expr.span))
            return arithmetic.wrap(length, expr.type) if isinstance(expr.type, IntType) else length
        case typed.HasKey(map=name, key=key):
            parts = values(ctx, key)
            there = ctx.name(BOOL)
            ctx.add(MapHas(there, name, parts, expr.span))
            return there


def _operator(ctx: Context, expr: typed.Unary | typed.Binary | typed.Ternary | typed.Cast) -> Value:
    match expr:
        case typed.Unary(op="!", operand=operand):
            return arithmetic.negation(truth(ctx, operand))
        case typed.Unary(op=op, operand=operand):
            inner = value(ctx, operand)
            return arithmetic.unary(op, inner, expr.type) if isinstance(expr.type, IntType) else inner
        case typed.Binary(op="&&" | "||" as op, left=left, right=right):
            return _logical(ctx, op, truth(ctx, left), right)
        case typed.Binary(op=op, left=left, right=right):
            one, other = values(ctx, (left, right))
            if op not in arithmetic.COMPARISONS:
                assert isinstance(expr.type, IntType)
                return arithmetic.binary(op, one, other, expr.type, ctx.once)
            if isinstance(one.type, (IntType, BoolType)):
                return arithmetic.compare(op, one, other)
            same = Op(BOOL, "same", (one, other))
            return same if op == "==" else arithmetic.negation(same)
        case typed.Ternary(condition=condition, then=then, otherwise=otherwise):
            test = truth(ctx, condition)
            return ctx.choice(test, lambda: value(ctx, then), lambda: value(ctx, otherwise), expr.type)
        case typed.Cast(operand=operand):
            return _cast(value(ctx, operand), expr.type)


def _cast(inner: Value, type: Type) -> Value:
    if isinstance(type, BoolType):
        return arithmetic.truth(inner)
    if isinstance(type, IntType):
        return arithmetic.number(inner, type) if isinstance(inner.type, BoolType) else arithmetic.wrap(inner, type)
    return Op(type, "as", (inner,)) if inner.type != type else inner


def _logical(ctx: Context, op: str, left: Value, right: typed.Expr) -> Value:
    """The right side runs only where the left one does not decide."""
    decided = Const(BOOL, op == "||")
    if isinstance(left, Const):
        return decided if left.value == decided.value else truth(ctx, right)
    ((steps, other),) = ctx.branches(lambda: truth(ctx, right))
    assert other is not None
    if ctx.hoisted(steps):
        return Op(BOOL, "both" if op == "&&" else "either", (left, other))
    name = ctx.name(BOOL)
    if op == "&&":
        ctx.add(If(left, steps, (), name, (other, decided)))
    else:
        ctx.add(If(left, (), steps, name, (decided, other)))
    return name


def _increment(ctx: Context, expr: typed.VarIncr | typed.MapIncr) -> Value:
    assert isinstance(expr.type, IntType)
    match expr:
        case typed.VarIncr(slot=slot, delta=delta):
            held = ctx.slot(slot)
            after = ctx.once(_plus(ctx, held, delta, expr.type))
            ctx.add(SetSlot(slot, after))
            ctx.set_slot(slot, after)
            return after if expr.prefix else held
        case typed.MapIncr(map=map, key=key, delta=delta):
            parts = values(ctx, key)
            type = ctx.program.maps[map].value
            assert isinstance(type, IntType)
            before = ctx.name(type)
            ctx.add(MapAdd(map, parts, Const(INT64, delta), before))
            ctx.forget_map(map)
            return _plus(ctx, before, delta, type) if expr.prefix else before


def _plus(ctx: Context, held: Value, delta: int, type: IntType) -> Value:
    return arithmetic.binary("+" if delta > 0 else "-", held, Const(type, abs(delta)), type, ctx.once)
