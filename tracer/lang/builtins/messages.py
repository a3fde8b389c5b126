"""Functions that print messages on stderr, and assertions."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.builtins import formats
from tracer.lang.builtins.printing import formatted, formatting
from tracer.lang.constructs import BuiltinFunction, Call, Parameter, said
from tracer.lang.fold import written


def _output(call: Call, kind: typed.OutputKind) -> typed.Output:
    return typed.Output(kind, call.span, tuple([span for _, span in reversed(call.context.calls)]))


def _static_assert(call: Call) -> None:
    condition, message = call.args
    if not condition:
        call.error(message, call.span)


def _fail(call: Call) -> None:
    """The message is made at once, of constants."""
    printf = formatted(call)
    if printf is None:
        return
    values = [written(arg) for arg in printf.args]
    if None in values:
        where = printf.args[values.index(None)].span
        call.error("fail() shows constants: it ends the program before it runs", where, "errorf() shows what a hit has")
        return
    text, message, end = call.args[0], "", 0
    for conversion in formats.conversions(text):
        del values[: conversion.stars]
        shown = "%" if conversion.kind == "%" else values.pop(0)
        shown = shown.decode("utf-8", "replace") if isinstance(shown, bytes) else str(shown)
        message, end = f"{message}{text[end : conversion.start]}{shown}", conversion.end
    call.error(message + text[end:], call.span)


def _of(name: typed.OutputKind, help: str, example: str) -> BuiltinFunction:
    return formatting(name, help, example, lambda call: formatted(call, _output(call, name)))


FUNCTIONS = (
    _of("errorf", "prints an error on stderr, with its place in the program", 'errorf("%d is too much", arg0);'),
    _of("warnf", "prints a warning on stderr, with its place in the program", 'warnf("%d is much", arg0);'),
    _of("debugf", "prints a debugging message on stderr, with its place in the program", 'debugf("%d", arg0);'),
    formatting(
        "fail", "refuses the program with a message, where it is not left out by `if comptime`", 'fail("not here");',
        _fail,
    ),
    BuiltinFunction(
        "static_assert", "statement", "static_assert(condition, message)",
        (
            Parameter("constant", "the condition of static_assert()"),
            Parameter("text", "the message of static_assert()"),
        ),
        None, "refuses the program where a constant is 0", 'static_assert(1 + 1 == 2, "strange");', rule=_static_assert,
    ),
    BuiltinFunction(
        "assert", "statement", "assert(condition, message)",
        (Parameter("integer", "the condition of assert()"), Parameter("string", "the message of assert()")), None,
        "ends the trace with status 1 and a message where a condition does not hold", 'assert(arg0 > 0, "no size");',
        rule=said('if (!$1) { errorf("assert failed: %s", $2); exit(1); }'),
    ),
)  # fmt: skip
