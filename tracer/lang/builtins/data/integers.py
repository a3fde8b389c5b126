"""Functions of integers alone."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, said
from tracer.lang.fold import constant, convert
from tracer.lang.types import BOOL, UINT64, IntType
from tracer.lang.types.combine import LITERAL, SMALL


def _bswap(call: Call) -> typed.Expr:
    """`bswap(n)`, as wide as its argument. A literal is as wide as it needs to be. Values that stay below 2**32 have 32
    bits.
    """
    (operand,) = call.args
    bits = operand.type.bits if isinstance(operand.type, IntType) else 8
    value = constant(operand)
    if operand.type == LITERAL and value is not None:
        bits = next(bits for bits in (8, 16, 32, 64) if value < 1 << bits)
    type = IntType(32 if operand.type == SMALL else bits, False)
    return typed.Call(type, call.span, call.name, (convert(operand, type),))


def _swapped(type: IntType, value: int) -> int:
    size = type.bits // 8
    return int.from_bytes((value % (1 << type.bits)).to_bytes(size, "little"), "big")


def _shifts(ctx: Lowering[V], call: typed.Call) -> V:
    assert isinstance(call.type, IntType)
    value, last = ctx.once(ctx.wrap(ctx.value(call.args[0]), UINT64)), call.type.bits - 8
    result = ctx.constant(0, UINT64)
    for shift in range(0, call.type.bits, 8):
        shifted = ctx.arithmetic(">>", value, ctx.constant(shift, UINT64), UINT64)
        byte = ctx.arithmetic("&", shifted, ctx.constant(255, UINT64), UINT64)
        moved = ctx.arithmetic("<<", byte, ctx.constant(last - shift, UINT64), UINT64)
        result = ctx.arithmetic("|", result, moved, UINT64)
    return ctx.wrap(result, call.type)


FUNCTIONS = (
    BuiltinFunction(
        "bswap", "value", "bswap(n)", (Parameter("integer", "the argument of bswap()"),), None,
        "n with its bytes in reverse order, unsigned and as wide as n", "@[bswap((uint16)arg0)] = count();",
        "uint8 to uint64", rule=_bswap, fold=_swapped, lower=_shifts,
    ),
    BuiltinFunction(
        "is_err", "value", "is_err(n)", (Parameter("integer", "the argument of is_err()"),), BOOL,
        "whether a number or pointer is an error as system calls return it, -4095 to -1",
        "@[is_err(arg0)] = count();",
        rule=said("(uint64)$1 >= (uint64)-4095"),  # MAX_ERRNO of include/linux/err.h
    ),
)  # fmt: skip
