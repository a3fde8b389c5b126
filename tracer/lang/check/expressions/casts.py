"""Casts between numbers, pointers, strings and blocks of bytes."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.check.expressions.memory import MOST_BYTES, load
from tracer.lang.fold import array_in_memory, cast, constant, convert, true_text, width
from tracer.lang.scope.context import Context
from tracer.lang.types import (
    UINT64,
    ArrayType,
    BoolType,
    EnumType,
    IntType,
    PointerType,
    StringType,
    StructType,
    Type,
    VariablePointer,
    memory_size,
)
from tracer.lang.types.combine import LITERAL, a_type

_BYTE = IntType(8, False)
_ARRAY_OF_TEXT_MOST = 1024
"""How many bytes of a string can become an array."""


def converted(ctx: Context, value: typed.Expr, to: Type, span: Span) -> typed.Expr | None:
    """`(to)value`."""
    have = value.type
    if isinstance(have, VariablePointer) and isinstance(to, PointerType):
        return replace(cast(value, replace(have, target=to.target)), span=span)
    if isinstance(to, ArrayType) and isinstance(have, IntType | BoolType | StringType):
        return _as_array(ctx, value, to, span)
    if isinstance(to, StructType | ArrayType) and have == to:
        return replace(value, span=span)
    array = array_in_memory(value)
    if isinstance(to, PointerType) and array is not None:  # as in C an array is the address where it begins
        return replace(cast(array[0], to), span=span)
    is_number = isinstance(to, IntType) and not isinstance(to, PointerType)
    if is_number and isinstance(have, ArrayType) and memory_size(have) == memory_size(to):
        return typed.Part(to, span, value, typed.IntLit(UINT64, span, 0))
    elif isinstance(to, IntType | BoolType) and isinstance(have, IntType | BoolType):
        number = constant(value)
        if isinstance(to, EnumType) and number is not None and to.word(number) is None:
            names = ", ".join(name for name, _ in to.members[:8])
            ctx.error(f"{to} has no constant of the value {number}", value.span, f"it has {names}")
            return None
        return replace(cast(value, to), span=span)
    elif isinstance(have, StringType) and isinstance(to, BoolType):
        return replace(true_text(value), span=span)
    elif isinstance(have, StringType) and isinstance(to, StringType) and have.size <= to.size:
        return replace(convert(value, to), span=span)
    what = f"a {have}" if isinstance(have, StringType) and isinstance(to, StringType) else a_type(have)
    ctx.error(f"{what} cannot be cast to {to}", value.span)
    return None


def _as_array(ctx: Context, value: typed.Expr, to: ArrayType, span: Span) -> typed.Expr | None:
    """The bytes of an integer, or of a text in the program, as an array, with zeros behind them; those of any other
    string with its whole room.
    """
    item = memory_size(to.item)
    if isinstance(value.type, StringType) and not isinstance(value, typed.StrLit):
        return _of_text(ctx, value, value.type, to, span)
    if isinstance(value, typed.StrLit):
        have = len(value.value) + 1
        parts: list[typed.Expr] = [typed.IntLit(_BYTE, span, byte) for byte in (*value.value, 0)]
    elif isinstance(value.type, IntType | BoolType):
        have = _width(value)
        parts = [convert(value, IntType(8 * have, False))]
    else:
        raise AssertionError(f"no bytes of {a_type(value.type)}")
    size = to.count * item or have
    if not isinstance(to.item, IntType | BoolType) or size < have or size % item or size > MOST_BYTES:
        what = f"{a_type(value.type)}" if have == memory_size(value.type) else f"a value of {have} bytes"
        ctx.error(f"{what} cannot be cast to {to}, which has {size} bytes", value.span)
        return None
    parts += [typed.IntLit(_BYTE, span, 0)] * (size - have)
    return typed.Pack(ArrayType(to.item, size // item), span, tuple(parts))


def _of_text(ctx: Context, text: typed.Expr, have: StringType, to: ArrayType, span: Span) -> typed.Expr | None:
    """A string as an array, zeros behind it: an array of chars in memory as it is there, NUL or not."""
    item = memory_size(to.item)
    in_memory = isinstance(text, typed.Str) and text.array
    room = have.size - 1 if in_memory else have.size
    size = to.count * item or room
    fits = size == room or (size > room and not in_memory)
    if not isinstance(to.item, IntType | BoolType) or not fits or size % item or size > _ARRAY_OF_TEXT_MOST:
        most = f"; at most {_ARRAY_OF_TEXT_MOST} bytes can be cast" if room > _ARRAY_OF_TEXT_MOST else ""
        ctx.error(f"{a_type(have)} of {room} bytes cannot be cast to {to}, which has {size} bytes{most}", text.span)
        return None
    array = ArrayType(to.item, size // item)
    if in_memory:
        assert isinstance(text, typed.Str)
        return load(ctx, array, text.address, 0, span)
    return typed.Part(array, span, text, typed.IntLit(UINT64, span, 0))


def _width(value: typed.Expr) -> int:
    """Bytes of an integer: a literal has as many as it needs."""
    number = constant(value)
    return memory_size(value.type) if value.type != LITERAL or number is None else width(number)
