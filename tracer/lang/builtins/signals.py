"""Signals to the traced program, sent by the kernel at the hit."""

from __future__ import annotations

import signal as numbers

from tracer.lang import features, typed
from tracer.lang.builtins.printing import allowed
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.fold import constant, convert
from tracer.lang.types import BOOL, INT64, IntType, StringType
from tracer.lang.types.combine import a_type

MOST = 64
_NUMBER = IntType(32, False)
_NAMES = "a signal's name, such as USR1, or its number, 1 to 64"


def _named(text: bytes) -> int | None:
    """The number of `USR1`, `SIGUSR1` or `usr1`; real-time signals have numbers alone."""
    word = text.decode("ascii", "replace").upper()
    name = word if word.startswith("SIG") else f"SIG{word}"
    if not name[3:].isalnum() or name.startswith("SIGRT"):
        return None
    return getattr(numbers, name, None)


def _number(call: Call) -> typed.Expr | None:
    """The signal as a number; reports an error if it is none."""
    (what,) = call.args
    if isinstance(what, typed.StrLit) and isinstance(what.type, StringType):
        named = _named(what.value)
        if named is None:
            call.error(f"there is no signal {call.context.text(what.span)}", what.span, f"write {_NAMES}")
            return None
        return typed.IntLit(_NUMBER, what.span, int(named))
    if not isinstance(what.type, IntType):
        call.error(f"{call.name}() takes {_NAMES}, not {a_type(what.type)}", what.span)
        return None
    signal = constant(what)
    if signal is not None and not 1 <= signal <= MOST:
        call.error(f"there is no signal {signal}", what.span, f"write {_NAMES}")
        return None
    return convert(what, _NUMBER)


def _says(call: Call, kind: typed.OutputKind, text: str, value: typed.Expr) -> typed.Printf:
    index = call.context.format_index(text, (value.type,), typed.Output(kind, call.span))
    return typed.Printf(call.span, index, (value,))


def _sends(call: Call) -> tuple[typed.Stmt, ...] | None:
    """Sends the signal and reports errors: a number that is known only at the hit may be no signal."""
    number = _number(call)
    if number is None or not allowed(call):
        return None
    span = call.span
    result = call.variable("result", call.spans[0], INT64)
    asked = None if constant(number) is not None else call.variable("number", call.span, _NUMBER)
    given = asked or number
    sent = typed.VarSet(span, result.slot, typed.Call(INT64, span, call.name, (given,)))
    failed = typed.Binary(BOOL, span, "!=", result, typed.IntLit(INT64, span, 0))
    warned = _says(call, "warnf", "signal call failed with error %d", result)
    sends = (sent, typed.If(span, failed, (warned,), ()))
    if asked is None:
        return sends
    first = typed.Binary(_NUMBER, span, "-", given, typed.IntLit(_NUMBER, span, 1))
    outside = typed.Binary(BOOL, span, ">=", first, typed.IntLit(_NUMBER, span, MOST))
    wrong = _says(call, "errorf", f"{call.name}() expects an integer between 1 and {MOST} (inclusive). Got %d", given)
    return typed.VarSet(span, asked.slot, number), typed.If(span, outside, (wrong,), sends)


def _of(name: str, whom: str) -> BuiltinFunction:
    return BuiltinFunction(
        name, "statement", f"{name}(signal)", (Parameter("value"),), None,
        f"sends {whom} a signal, by name or number, at the moment of the hit; needs --unsafe",
        f'if (arg0 > 4096) {{ {name}("STOP"); }}', place="signal", rule=_sends,
        lower=lambda ctx, call: ctx.signal(ctx.value(call.args[0]), call.name == "signal_thread"),
        needs=features.SIGNAL,
    )  # fmt: skip


FUNCTIONS = (
    _of("signal", "the process that hit the probe"),
    _of("signal_thread", "the thread that hit the probe"),
)
