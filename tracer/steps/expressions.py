"""Typed expressions → values, and the steps that have to come before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.kinds.site import TAIL_OF
from tracer.lang import features, typed
from tracer.lang.builtins.registry import built_in_of
from tracer.lang.constructs import BuiltinFunction
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT8,
    UINT64,
    ArrayType,
    BoolType,
    BufferType,
    CgroupPathType,
    FloatType,
    IntType,
    KernelSymbolType,
    PointerType,
    StringType,
    TupleType,
    Type,
    UsernameType,
    is_block,
    memory_size,
    operations,
)
from tracer.lang.types.operations import Operation
from tracer.steps import arithmetic, memory
from tracer.steps.context import Context
from tracer.steps.model import DividedByZero, If, MapAdd, MapDelete, MapHas, MapLength, Random, SetSlot, Signal, Within
from tracer.steps.values import Argument, Const, Name, Op, Register, ReturnValue, SiteText, Value

Body = Callable[["Lowering", Sequence[typed.Stmt]], None]
"""The lowering of statements, which `lower` provides."""


class Lowering(Context):
    """The clause under construction, and the `constructs.Lowering` of what stands in it."""

    def __init__(self, program: typed.Program, clause: typed.Clause, body: Body) -> None:
        super().__init__(program, clause)
        self.body = body
        self.attempts = False
        """Whether statements of the clause can end alone."""

    def statements(self, body: Sequence[typed.Stmt]) -> None:
        """The steps of statements inside an expression."""
        self.body(self, body)

    def value(self, expr: typed.Expr) -> Value:
        return value(self, expr)

    def constant(self, number: int | bool | bytes, type: Type) -> Value:
        return Const(type, number)

    def op(self, op: Operation, type: Type, *args: Value) -> Value:
        """An operation of `operations`, or a built-in's own."""
        return Op(type, op, args)

    def arithmetic(self, op: str, left: Value, right: Value, type: IntType) -> Value:
        low, high = arithmetic.bounds(right)
        if op not in ("/", "%") or low > 0 or high < 0:
            return arithmetic.binary(op, left, right, type, self.once)
        one = Const(type, 1)
        if low == high == 0:
            self.add(DividedByZero())
            return one
        left, right = self.once(left), self.once(right)
        result, name = arithmetic.binary(op, left, right, type, self.once), self.name(type)
        self.add(If(arithmetic.truth(right), (), (DividedByZero(),), name, (result, one)))
        return name

    def wrap(self, value: Value, type: IntType) -> Value:
        return arithmetic.wrap(value, type)

    def compare(self, op: str, left: Value, right: Value) -> Value:
        return arithmetic.compare(op, left, right)

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        return arithmetic.select(condition, then, otherwise)

    def site_text(self, name: str, type: Type) -> Value:
        return SiteText(type, name)

    def return_value(self, span: Span) -> Value:
        return self.fetch(ReturnValue(), UINT64, span)

    def register(self, name: str, span: Span) -> Value:
        """A register."""
        return self.fetch(Register(name), UINT64, span)

    def random(self) -> Value:
        name = self.name(UINT64)
        self.add(Random(name))
        return name

    def signal(self, number: Value, thread: bool) -> Value:
        name = self.name(INT64)
        self.add(Signal(name, number, thread))
        return name

    def string_at(self, address: Value, type: StringType, sized: bool, length: Value | None, span: Span) -> Value:
        """A string in memory."""
        return memory.string_at(self, address, type, sized, length, span)

    def bytes_at(self, address: typed.Expr, type: Type, length: Value, span: Span) -> Value:
        return memory.bytes_at(self, value(self, address), type, length, span)

    def map_has(self, map: str, key: tuple[typed.Expr, ...], span: Span) -> Value:
        parts = values(self, key)
        there = self.name(BOOL)
        self.add(MapHas(there, map, parts, span))
        return there

    def map_delete(self, map: str, key: tuple[typed.Expr, ...], span: Span) -> Value:
        result = self.name(BOOL)
        self.add(MapDelete(map, values(self, key), span, result))
        self.forget_map(map)
        return result

    def map_find(self, map: str, key: tuple[typed.Expr, ...], slot: int, span: Span) -> Value:
        parts, there = values(self, key), self.name(BOOL)
        self.add(MapHas(there, map, parts, span))
        type = self.clause.slots[slot]

        def take() -> None:
            held = self.map_value(map, parts, self.program.maps[map].value, span)
            held = arithmetic.wrap(held, type) if isinstance(type, IntType) else held
            self.add(SetSlot(slot, held))
            self.set_slot(slot, held)

        ((steps, _),) = self.branches(take)
        self.add(If(there, steps, ()))
        return there

    def map_length(self, map: str, type: Type, span: Span) -> Value:
        length = self.name(UINT64)
        self.add(MapLength(length, map, span))
        return arithmetic.wrap(length, type) if isinstance(type, IntType) else length


def value(ctx: Lowering, expr: typed.Expr) -> Value:
    """The value of an expression."""
    return ctx.kept(_value(ctx, expr))


def values(ctx: Lowering, exprs: Sequence[typed.Expr]) -> tuple[Value, ...]:
    """Several expressions, from left to right."""
    return tuple([value(ctx, expr) for expr in exprs])


def truth(ctx: Lowering, expr: typed.Expr) -> Value:
    """Whether an integer or bool is not 0."""
    return arithmetic.truth(value(ctx, expr))


def _value(ctx: Lowering, expr: typed.Expr) -> Value:
    match expr:
        case typed.IntLit(value=constant) | typed.BoolLit(value=constant) | typed.StrLit(value=constant):
            return Const(expr.type, constant)
        case typed.Arg(index=index) if index == TAIL_OF:
            return ctx.site_text("tail", UINT64)
        case typed.Arg(index=index):
            assert not isinstance(expr.type, StringType)
            return ctx.fetch(Argument(index, expr.type), expr.type, expr.span)  # type: ignore[arg-type]
        case typed.Var(slot=slot):
            return ctx.slot(slot)
        case typed.Unary() | typed.Binary() | typed.Ternary() | typed.Cast():
            return _operator(ctx, expr)
        case typed.TupleExpr(items=items):
            return Op(expr.type, operations.TUPLE, values(ctx, items))
        case typed.TupleItem(operand=operand, index=index):
            whole = value(ctx, operand)
            if isinstance(whole, Op) and whole.op is operations.TUPLE:
                return whole.args[index]
            return _item(whole, index, expr.type)
        case typed.Load() | typed.Str() if (either := _at_either(expr)) is not None:
            condition, then, otherwise = either
            return ctx.choice(truth(ctx, condition), lambda: value(ctx, then), lambda: value(ctx, otherwise), expr.type)
        case typed.Load(address=address):
            place = value(ctx, address)
            if isinstance(expr.type, IntType):
                return memory.integer_at(ctx, place, expr.type, expr.span)
            if isinstance(expr.type, FloatType):
                bits = memory.integer_at(ctx, place, IntType(expr.type.bits, False), expr.span)
                return Op(expr.type, operations.AS, (bits,))
            return memory.block_at(ctx, place, expr.type, expr.span)
        case typed.Part(operand=operand, offset=offset):
            return Op(expr.type, operations.PART, values(ctx, (operand, offset)))
        case typed.Within(index=index, count=count):
            return _within(ctx, value(ctx, index), count)
        case typed.Pack(items=items):
            return Op(expr.type, operations.PACK, values(ctx, items))
        case typed.BlockExpr(body=body, value=last):
            ctx.statements(body)
            return value(ctx, last)
        case typed.VarIncr() | typed.MapIncr():
            return _increment(ctx, expr)
        case typed.MapGet(map=name, key=key):
            if ctx.program.maps[name].kind != "scalar":
                ctx.ask(features.AGGREGATION_READ, f"{name} as a value", expr.span)
            return ctx.map_value(name, values(ctx, key), expr.type, expr.span)
        case _:
            return _built_in(ctx, expr)


def _built_in(ctx: Lowering, expr: typed.Expr) -> Value:
    construct = built_in_of(expr)
    assert construct.lower is not None, expr
    if construct.needs is not None:
        name = expr.name if isinstance(expr, typed.Builtin | typed.Call) else construct.name
        ctx.ask(construct.needs, f"{name}()" if isinstance(construct, BuiltinFunction) else name, expr.span)
    if isinstance(construct.lower, Operation):
        assert isinstance(expr, typed.Call)
        return Op(expr.type, construct.lower, values(ctx, expr.args))
    lowered: Value = construct.lower(ctx, expr)
    return lowered


def _item(whole: Value, index: int, type: Type) -> Value:
    return Op(type, operations.ITEM, (whole, Const(INT64, index)))


def _within(ctx: Lowering, index: Value, count: int) -> Value:
    """An index of so many elements."""
    low, high = arithmetic.bounds(index)
    if low >= 0 and high < count:
        return index
    index = ctx.once(index)
    inside = arithmetic.compare("<", arithmetic.wrap(index, UINT64), Const(UINT64, count))
    if ctx.find(inside) is None:
        ctx.add(Within(inside))
        if isinstance(index, Name):
            ctx.remember(inside, index)
    return index


_Either = tuple[typed.Expr, typed.Expr, typed.Expr]
"""The condition, and the values if it holds and if not."""


def _at_either(expr: typed.Load | typed.Str) -> _Either | None:
    """A read at one of two addresses, as one of two reads: then each may be a part of the hit."""
    either = _either(expr.address)
    return either and (either[0], replace(expr, address=either[1]), replace(expr, address=either[2]))


def _either(address: typed.Expr) -> _Either | None:
    """Takes an address apart that is one of two, also with a constant added and cast."""
    match address:
        case typed.Ternary(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case typed.Cast(operand=operand):
            either = _either(operand)
            return either and (either[0], replace(address, operand=either[1]), replace(address, operand=either[2]))
        case typed.Binary(op="+" | "-", left=left, right=typed.IntLit() | typed.Cast(operand=typed.IntLit())):
            either = _either(left)
            return either and (either[0], replace(address, left=either[1]), replace(address, left=either[2]))
    return None


def _operator(ctx: Lowering, expr: typed.Unary | typed.Binary | typed.Ternary | typed.Cast) -> Value:
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
            if op not in operations.COMPARISONS:
                assert isinstance(expr.type, IntType)
                return ctx.arithmetic(op, one, other, expr.type)
            if isinstance(one.type, (UsernameType, KernelSymbolType, CgroupPathType)):
                one, other = (Op(UINT64, operations.AS, (side,)) for side in (one, other))
            if isinstance(one.type, (IntType, BoolType)):
                return arithmetic.compare(op, one, other)
            same = Op(BOOL, operations.SAME, (one, other)) if one != other else Const(BOOL, True)
            return same if op == "==" else arithmetic.negation(same)
        case typed.Ternary(condition=condition, then=then, otherwise=otherwise):
            test = truth(ctx, condition)
            return ctx.choice(test, lambda: value(ctx, then), lambda: value(ctx, otherwise), expr.type)
        case typed.Cast(operand=operand):
            if isinstance(expr.type, ArrayType) and not is_block(operand.type):
                pieces = _laid_out(ctx, value(ctx, operand), memory_size(expr.type))
                return Op(expr.type, operations.PACK, tuple(pieces))
            return _cast(value(ctx, operand), expr.type)


def _laid_out(ctx: Lowering, inner: Value, room: int) -> list[Value]:
    """The first bytes of a value as consecutive integers, with zeros in the gaps of its tuples."""
    from tracer.lang.types.sizes import placed, size_of

    match inner.type:
        case TupleType() as type:
            pieces: list[Value] = []
            inner = inner if isinstance(inner, Op) and inner.op is operations.TUPLE else ctx.once(inner)
            end = 0
            for index, (start, item) in enumerate(placed(type)):
                pieces += _zeros(min(start, room) - end)
                if start >= room:
                    return pieces
                one = inner.args[index] if isinstance(inner, Op) else _item(inner, index, item)
                pieces += _laid_out(ctx, one, room - start)
                end = start + size_of(item)
            return pieces + _zeros(min(size_of(type), room) - end)
        case IntType(bits=bits):
            return [arithmetic.wrap(inner, IntType(bits, False))]
        case BoolType():
            return [arithmetic.number(inner, UINT8)]
        case type:
            size = memory_size(type)
            if not is_block(type):
                inner = Op(ArrayType(UINT8, size), operations.PART, (inner, Const(UINT64, 0)))
            inner, words = ctx.once(inner), -(-min(size, room) // 8)
            starts = [(start, UINT64) if start + 8 <= size else (start, UINT8) for start in range(0, 8 * words, 8)]
            starts += [(start, UINT8) for start in range(8 * (size // 8) + 1, size) if words > size // 8]
            return [Op(type, operations.PART, (inner, Const(UINT64, start))) for start, type in starts]


def _zeros(count: int) -> list[Value]:
    return [Const(UINT8, 0)] * count


def _cast(inner: Value, type: Type) -> Value:
    if isinstance(type, BoolType):
        return arithmetic.truth(inner)
    if isinstance(type, IntType):
        return arithmetic.number(inner, type) if isinstance(inner.type, BoolType) else arithmetic.wrap(inner, type)
    if isinstance(type, TupleType):
        assert isinstance(inner.type, TupleType)
        places = [inner.type.names.index(name) for name in type.names]
        if isinstance(inner, Op) and inner.op is operations.TUPLE:
            return Op(type, operations.TUPLE, tuple([inner.args[place] for place in places]))
        items = tuple([_item(inner, index, item) for item, index in zip(type.items, places, strict=True)])
        return Op(type, operations.TUPLE, items)
    if isinstance(type, BufferType) and inner.type != type:
        return Op(type, operations.PAD, (inner,))
    return Op(type, operations.AS, (inner,)) if inner.type != type else inner


def _logical(ctx: Lowering, op: str, left: Value, right: typed.Expr) -> Value:
    """The right side runs only where the left one does not decide."""
    decided = Const(BOOL, op == "||")
    if isinstance(left, Const):
        return decided if left.value == decided.value else truth(ctx, right)
    ((steps, other),) = ctx.branches(lambda: truth(ctx, right))
    assert other is not None
    if ctx.hoisted(steps):
        return Op(BOOL, operations.BOTH if op == "&&" else operations.EITHER, (left, other))
    name = ctx.name(BOOL)
    if op == "&&":
        ctx.add(If(left, steps, (), name, (other, decided)))
    else:
        ctx.add(If(left, (), steps, name, (decided, other)))
    return name


def _increment(ctx: Lowering, expr: typed.VarIncr | typed.MapIncr) -> Value:
    assert isinstance(expr.type, IntType)
    match expr:
        case typed.VarIncr(slot=slot, delta=delta):
            held = ctx.slot(slot)
            after = _plus(ctx, held, delta, expr.type)
            if not (isinstance(expr.type, PointerType) and arithmetic.atomic(arithmetic.address(after)[0])):
                after = ctx.once(after)  # a pointer that moves stays a base and a constant
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


def _plus(ctx: Lowering, held: Value, delta: int, type: IntType) -> Value:
    return arithmetic.binary("+" if delta > 0 else "-", held, Const(type, abs(delta)), type, ctx.once)
