"""Clocks and how times are shown."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, Value
from tracer.lang.fold import constant, string
from tracer.lang.types import UINT64, TimestampType, operations

TIME_FORMAT = "%H:%M:%S\n"
"""What time() prints without an argument."""


def _time(call: Call) -> typed.Stmt:
    (text,) = call.args or (TIME_FORMAT,)
    return typed.Time(call.span, call.context.format_index(text))


def _strftime(call: Call) -> typed.Expr | None:
    text, nanoseconds = call.args
    if (constant(nanoseconds) or 0) >> 63:
        call.error("strftime() takes no time before the machine was started", call.spans[1], "nsecs is that of the hit")
        return None
    return typed.Strftime(TimestampType(text), call.span, nanoseconds)


def _since_start(ctx: Lowering[V], node: typed.Builtin) -> V:
    now = ctx.built_in("nsecs", node.span)
    return ctx.arithmetic("-", now, ctx.built_in("started", node.span), UINT64)


def _nsecs(call: Call) -> typed.Expr:
    (mode,) = call.args or ("boot",)
    clock = {"boot": "nsecs", "sw_tai": "tai"}.get(mode, mode)
    return typed.Call(UINT64, call.span, "nsecs", (string(clock.encode(), call.span),))


def _read_clock(ctx: Lowering[V], call: typed.Call) -> V:
    (clock,) = call.args
    assert isinstance(clock, typed.StrLit)
    return ctx.built_in(clock.value.decode(), call.span)


CLOCKS = ("monotonic", "boot", "tai", "sw_tai")

VALUES = (
    Value("nsecs", UINT64, "nanoseconds since boot", "@start[tid] = nsecs;"),
    Value("elapsed", UINT64, "nanoseconds since tracing began", 'printf("%d\\n", elapsed);', lower=_since_start),
)

FUNCTIONS = (
    BuiltinFunction(
        "nsecs", "value", "nsecs([clock])", (Parameter("mode", "the clock of nsecs()", CLOCKS),), None,
        "nanoseconds by a clock: boot (nsecs itself), monotonic (time asleep left out), tai, sw_tai (the same)",
        "print(nsecs(tai));", "uint64", optional=1, rule=_nsecs, lower=_read_clock,
    ),
    BuiltinFunction(
        "time", "statement", "time([format])", (Parameter("text", "the format of time()"),), None,
        "prints the wall clock through strftime(3)", 'time("%H:%M:%S\\n");', optional=1, rule=_time,
    ),
    BuiltinFunction(
        "strftime", "value", "strftime(format, ns)",
        (Parameter("text", "the format of strftime()"), Parameter("unsigned", "the time of strftime()")), None,
        "nanoseconds since boot as a date and time", 'print(strftime("%H:%M:%S", nsecs));', "timestamp",
        rule=_strftime, node=typed.Strftime,
        lower=lambda ctx, node: ctx.op(operations.AS, node.type, ctx.value(node.nanoseconds)),
    ),
)  # fmt: skip
