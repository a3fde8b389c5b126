"""Reading the memory of the hit process: addresses become a base and a constant, and a part of the hit where they can.

The way a program writes an address does not matter: `$p = arg0; str($p + 8)` is one fetch at arg0 + 8, and a string at
one of two addresses is one of two fetches.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.errors import NOWHERE, Span
from tracer.lang import features
from tracer.lang.features import Feature
from tracer.lang.types import UINT64, ArrayType, IntType, PointerType, StringType, Type, memory_size, operations
from tracer.steps import arithmetic
from tracer.steps.context import Context
from tracer.steps.model import Fetch
from tracer.steps.values import (
    Argument,
    BuiltIn,
    Bytes,
    Const,
    InMemory,
    Memory,
    Name,
    Op,
    Register,
    ReturnValue,
    Source,
    Text,
    Value,
    Zero,
)


def integer_at(ctx: Context, address: Value, type: IntType, span: Span) -> Value:
    """`*(type *)address`."""

    def read(address: Value) -> Value:
        base, offset, place = _place(ctx, address)
        ctx.ask(_reading(ctx, base, address), "*", span)
        return _fetched(ctx, Memory(base, offset, type), type, place, None, span)

    return _at_either(ctx, address, read, type)


def block_at(ctx: Context, address: Value, type: Type, span: Span) -> Value:
    """`*(struct s *)address`: all its bytes."""

    def read(address: Value) -> Value:
        base, offset, place = _place(ctx, address)
        ctx.ask(_reading(ctx, base, address), "*", span)
        return _fetched(ctx, Bytes(base, offset, memory_size(type)), type, place, None, span)

    return _at_either(ctx, address, read, type)


def bytes_at(ctx: Context, address: Value, type: Type, length: Value, span: Span) -> Value:
    """`buf(address, length)`: the first bytes of a block."""
    if isinstance(length, Const):
        return block_at(ctx, address, ArrayType(IntType(8, False), int(length.value)), span)
    ctx.ask(features.BUFFER_SIZED, "buf()", span)
    return _fetched(ctx, Bytes(None, 0, memory_size(type)), type, ctx.once(address), length, span)


def string_at(ctx: Context, address: Value, type: StringType, sized: bool, length: Value | None, span: Span) -> Value:
    """`str(address)`, `str(address, length)`."""

    def read(address: Value) -> Value:
        base, offset, place = _place(ctx, address)
        reading = _reading(ctx, base, address)
        computed = features.STRING_COMPUTED if reading is features.LOAD_COMPUTED else reading
        ctx.ask(features.STRING if base is not None else computed, "str()", span)
        text = Text(base, offset, type.size, sized, length is not None)
        return _fetched(ctx, text, type, place, length, span)

    return _at_either(ctx, address, read, type)


def _at_either(ctx: Context, address: Value, read: Callable[[Value], Value], type: Type) -> Value:
    """The value of `read` at an address. If it is one of two addresses, each is read in its own branch if it can then
    be read as a part of the hit.
    """
    base, offset = arithmetic.address(address)
    if isinstance(base, Op) and base.op is operations.SELECT:
        condition, *arms = base.args
    elif base in ctx.choices:
        condition, *arms = ctx.choices[base]
    else:
        return read(address)
    (first, one), (second, other) = map(arithmetic.address, arms)
    sources = [ctx.sources.get(arm) if isinstance(arm, Name) else None for arm in (first, second)]
    if any(source is None or isinstance(source, BuiltIn) for source in sources):
        return read(address)

    def arm(source: Source | None, constant: int) -> Value:
        assert source is not None
        return read(_sum(ctx, _again(ctx, source), constant + offset))

    return ctx.choice(condition, lambda: arm(sources[0], one), lambda: arm(sources[1], other), type)


def _again(ctx: Context, source: Source) -> Name:
    """A base, fetched again, since the earlier fetch is in another block."""
    if isinstance(source, Memory):
        assert source.base is not None
        if isinstance(source.base, Zero):
            address: Value = Const(UINT64, source.offset)
        else:
            address = _sum(ctx, _again(ctx, source.base), source.offset)
        return _fetched(ctx, source, source.type, address, None, NOWHERE)
    assert isinstance(source, (Argument, ReturnValue, Register))
    return ctx.fetch(source, source.type if isinstance(source, Argument) else UINT64, NOWHERE)


def _sum(ctx: Context, base: Value, offset: int) -> Value:
    constant = Const(UINT64, offset % (1 << 64))
    return arithmetic.binary("+", arithmetic.wrap(base, UINT64), constant, UINT64, ctx.once) if offset else base


def _place(ctx: Context, address: Value) -> tuple[Source | None, int, Value]:
    """The base, if it is a part of the hit, the constant, and the whole address."""
    base, offset = arithmetic.address(address)
    if isinstance(base, Const) and ctx.clause.kind.at_hits:
        constant = (int(base.value) + offset) % (1 << 64)
        return Zero(), constant, Const(UINT64, constant)
    source = ctx.sources.get(base) if isinstance(base, Name) else None
    if source is None or isinstance(source, BuiltIn):
        return None, 0, ctx.once(address)
    return source, offset, _sum(ctx, base, offset)


def _reading(ctx: Context, base: Source | None, address: Value) -> Feature:
    """The feature that a read at an address needs of a backend."""
    if base is not None:
        return features.LOAD
    pointer, _ = arithmetic.address(address)
    narrow = isinstance(pointer.type, PointerType) and pointer.type.bits == 32
    if narrow:
        return features.POINTER_32
    return features.LOAD_COMPUTED if ctx.clause.ends is None else features.LOAD_AFTER


def _fetched(
    ctx: Context, source: InMemory, type: Type, address: Value, length: Value | None, span: Span
) -> Name:
    if length is not None:
        length = ctx.once(length)
    identity = (source, address, length)
    name = ctx.find(identity)
    if name is None:
        name = ctx.remember(identity, ctx.name(type))
        ctx.add(Fetch(name, source, address, length, span=span))
        if ctx.is_fixed(address) and (length is None or ctx.is_fixed(length)):
            ctx.fixed.add(name)
        if isinstance(source, Memory) and source.base is not None and source.type.bits == 64:
            ctx.sources[name] = source
    return name
