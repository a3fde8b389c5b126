"""Typed clause → steps: predicate and body, then simplified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tracer.dataclass import replace
from tracer.lang import features, typed
from tracer.lang.aggregations.registry import kept_of
from tracer.lang.types import BOOL, UINT64, BoolType, IntType, StringType, Type, operations
from tracer.lang.walk import walk
from tracer.steps import arithmetic
from tracer.steps.expressions import Lowering, truth, value, values
from tracer.steps.model import (
    Attempt,
    Block,
    Break,
    Continue,
    Each,
    Empty,
    Exit,
    If,
    Leave,
    MapAdd,
    MapDelete,
    MapSet,
    Moment,
    Printf,
    PrintMap,
    PrintValue,
    Range,
    Require,
    Sample,
    SetSlot,
    Steps,
    Time,
    Update,
    While,
)
from tracer.steps.rounds import counted
from tracer.steps.simplify import simplified
from tracer.steps.values import Const, Name, Op, SiteText, Value
from tracer.steps.walk import defined


def lower(program: typed.Program, clause: typed.Clause) -> Steps:
    """The steps of a clause. Pure."""
    ctx = Lowering(program, clause, _block)
    ctx.attempts = not clause.kind.at_hits and any(map(_can_end, clause.body))
    for slot, type in enumerate(clause.slots):
        empty = _empty(type)
        if empty is not None:
            ctx.set_slot(slot, empty)
    for part in _conjuncts(clause.predicate):
        condition = truth(ctx, part)
        if not (isinstance(condition, Const) and condition.value):
            ctx.add(Require(condition, part.span))
    _block(ctx, clause.body)
    steps = Steps((*ctx.first, *ctx.block), clause.slots, 0, ctx.names, tuple(ctx.asks))
    steps = simplified(steps, ctx.fixed, set(filter(None, map(defined, ctx.first))))
    if not clause.kind.at_hits:
        return replace(steps, body=counted(steps.body, typed.LOCAL_LOOP_LIMIT, {}))
    rooms = {name: decl.most or program.config.max_map_keys for name, decl in program.maps.items()}
    return replace(steps, body=counted(steps.body, typed.LOOP_LIMIT, rooms))


def _empty(type: Type) -> Value | None:
    """The value of a variable before it is assigned, if that is a constant."""
    match type:
        case IntType():
            return Const(type, 0)
        case BoolType():
            return Const(type, False)
        case StringType():
            return Const(type, b"")
    return None


def _cheap(value: Value) -> bool:
    """Whether a variable's value may stand wherever the variable does: constants, copies, and addresses, so that these
    are simplified as if the program had no variable.
    """
    base, _ = arithmetic.address(value)
    if isinstance(base, Op) and base.op is operations.SELECT:
        return all(arithmetic.atomic(arithmetic.address(part)[0]) for part in base.args)
    return arithmetic.atomic(base) or isinstance(base, SiteText)


def _conjuncts(predicate: typed.Expr | None) -> list[typed.Expr]:
    match predicate:
        case None:
            return []
        case typed.Binary(op="&&", left=left, right=right):
            return [*_conjuncts(left), *_conjuncts(right)]
        case typed.Cast(type=BoolType(), operand=operand):
            return _conjuncts(operand)
    return [predicate]


def _block(ctx: Lowering, body: Sequence[typed.Stmt]) -> None:
    moments: dict[int, Name] = {}
    for index, stmt in enumerate(body):
        if ctx.attempts and _can_end(stmt):
            ((steps, _),) = ctx.branches(partial(_leaves, ctx, body, index, moments))
            ctx.add(Attempt(steps))
        elif _leaves(ctx, body, index, moments):
            return


def _can_end(stmt: typed.Stmt) -> bool:
    """Whether an index in a statement may be that of no element."""
    return any(isinstance(node, typed.Within) for node in walk(stmt))


def _leaves(ctx: Lowering, body: Sequence[typed.Stmt], index: int, moments: dict[int, Name]) -> Value | None:
    """The steps of one statement; whether none behind it runs."""
    match body[index]:
        case typed.PrintMap(map=map, top=top, div=div):
            ctx.add(PrintMap(map, top, div, _moment(ctx, body, index, map, moments)))
        case typed.Clear(map=map) | typed.Zero(map=map):
            zero = isinstance(body[index], typed.Zero)
            moment = moments.get(index) or _new_moment(ctx, map, zero)
            ctx.add(Empty(map, zero, moment))
            ctx.forget_map(map)
        case typed.Return():
            ctx.add(Leave())
            return _LEFT
        case typed.Break():
            ctx.add(Break())
            return _LEFT
        case typed.Continue():
            ctx.add(Continue())
            return _LEFT
        case typed.Exit(code=code):
            ctx.add(Exit(value(ctx, code)))
            return _LEFT
        case stmt:
            _statement(ctx, stmt)
    return None


_LEFT = Const(BOOL, True)


def _moment(
    ctx: Lowering, body: Sequence[typed.Stmt], index: int, map: str, moments: dict[int, Name]
) -> Name | None:
    """The name of the moment of a `print(@x)` that `clear(@x)` or `zero(@x)` follows on, which both mean: else the hits
    of other threads in between would be in no print.
    """
    for after in range(index + 1, len(body)):
        following = body[after]
        if isinstance(following, (typed.Clear, typed.Zero)) and following.map == map:
            if after not in moments:
                moments[after] = _new_moment(ctx, map, isinstance(following, typed.Zero))
            return moments[after]
        if not isinstance(following, (typed.PrintMap, typed.Clear, typed.Zero, typed.Time)):
            return None
    return None


def _new_moment(ctx: Lowering, map: str, zero: bool) -> Name:
    name = ctx.name(UINT64)
    ctx.add(Moment(name, map, zero))
    return name


def _statement(ctx: Lowering, stmt: typed.Stmt) -> None:
    match stmt:
        case typed.VarSet(slot=slot, value=expr):
            held = value(ctx, expr)
            held = held if _cheap(held) else ctx.once(held)
            ctx.add(SetSlot(slot, held))
            ctx.set_slot(slot, held)
        case typed.MapSet(map=map, key=key, value=expr):
            assigned = value(ctx, expr)
            ctx.add(MapSet(map, values(ctx, key), assigned))
            ctx.forget_map(map)
        case typed.MapAdd(map=map, key=key, value=expr):
            delta = value(ctx, expr)
            ctx.add(MapAdd(map, values(ctx, key), delta))
            ctx.forget_map(map)
        case typed.Aggregate(map=map, key=key, value=optional):
            sample = None if optional is None else value(ctx, optional)
            if sample is not None and kept_of(ctx.program.maps[map]).in_user_space:
                ctx.add(Sample(map, values(ctx, key), ctx.built_in("nsecs", stmt.span), sample))
            else:
                ctx.add(Update(map, values(ctx, key), sample))
            ctx.forget_map(map)
        case typed.Delete(map=map, key=key):
            ctx.add(MapDelete(map, values(ctx, key), stmt.span))
            ctx.forget_map(map)
        case typed.ExprStmt(expr=expr):
            value(ctx, expr)
        case typed.If() | typed.While() | typed.ForRange() | typed.ForMap():
            _control(ctx, stmt)
        case typed.Printf(format=format, args=args):
            ctx.add(Printf(format, values(ctx, args)))
        case typed.PrintValue(shape=shape, value=expr):
            ctx.add(PrintValue(shape, value(ctx, expr)))
        case typed.Time(format=format):
            ctx.add(Time(format))
        case _:
            raise TypeError(f"no such statement in the typed program: {type(stmt).__name__}")


def _control(ctx: Lowering, stmt: typed.If | typed.While | typed.ForRange | typed.ForMap) -> None:
    match stmt:
        case typed.If(condition=condition, then=then, otherwise=otherwise):
            test = truth(ctx, condition)
            if isinstance(test, Const):
                _block(ctx, then if test.value else otherwise)
                return
            (yes, _), (no, _) = ctx.branches(lambda: _block(ctx, then), lambda: _block(ctx, otherwise))
            ctx.add(If(test, yes, no))
        case typed.While(condition=condition, body=body):
            ctx.ask(features.LOOP, "while", stmt.span)
            ctx.enter_loop(stmt)
            heads: list[Block] = []

            def round() -> Value:
                again = truth(ctx, condition)
                heads.append(ctx.cut())
                _block(ctx, body)
                return again

            ((steps, again),) = ctx.branches(round)
            assert again is not None
            ctx.add(While(heads[0], again, steps))
        case typed.ForRange(slot=slot, start=start, stop=stop, body=body):
            ctx.ask(features.LOOP, "for", stmt.span)
            first, last = (ctx.once(bound) for bound in values(ctx, (start, stop)))
            ctx.enter_loop(stmt)
            ctx.add(_each_round(ctx, slot, body, lambda name, steps: Range(name, first, last, steps)))
        case typed.ForMap(slot=slot, map=map, body=body):
            ctx.ask(features.MAP_WALK, f"for over {map}", stmt.span)
            ctx.enter_loop(stmt)
            ctx.add(_each_round(ctx, slot, body, lambda name, steps: Each(name, map, steps, stmt.span)))


def _each_round(
    ctx: Lowering, slot: int, body: Sequence[typed.Stmt], make: Callable[[Name, Block], Range | Each]
) -> Range | Each:
    name = ctx.name(ctx.clause.slots[slot])

    def steps() -> None:
        ctx.add(SetSlot(slot, name))
        ctx.set_slot(slot, name)
        _block(ctx, body)

    ((block, _),) = ctx.branches(steps)
    return make(name, block)
