"""The functions that read the command line and the program's settings."""

from __future__ import annotations

from tracer.errors import Fault, Span
from tracer.lang import typed
from tracer.lang.config import told
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.fold import literal, string
from tracer.lang.syntax.lexer import number
from tracer.lang.types import BOOL, TupleType

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _getopt(call: Call) -> typed.Expr | None:
    name, *rest = call.args
    default = rest[0] if rest else typed.BoolLit(BOOL, call.span, False)
    if not isinstance(default, (typed.IntLit, typed.BoolLit, typed.StrLit)):
        call.error("the default of getopt() must be a constant", call.spans[1], "its type is that of the option")
        return None
    given = [option for option in call.context.options if option[2:].partition("=")[0] == name]
    if not given:
        return default
    _, equals, text = given[-1].partition("=")
    literal = _value(default, text if equals else None, call.span)
    if literal is None:
        kind = {typed.IntLit: "a number", typed.BoolLit: "true or false"}.get(type(default), "a text")
        call.error(f"the option --{name} takes {kind}, not '{text}'", call.span, f"write --{name}=…")
    return literal


def _value(default: typed.Expr, text: str | None, span: Span) -> typed.Expr | None:
    match default:
        case typed.BoolLit():
            truth = _TRUTH.get("true" if text is None else text.lower())
            return None if truth is None else typed.BoolLit(BOOL, span, truth)
        case typed.StrLit() if text is not None:
            return string(text.encode("utf-8", "surrogateescape"), span)
        case typed.IntLit() if text:
            digits = text.removeprefix("-")
            try:
                value = number(digits, span)
            except Fault:
                return None
            return literal(value if digits == text else -value, span)
    return None


def _config(call: Call) -> typed.Expr:
    items: list[typed.Expr] = []
    names = []
    for name, value in told(call.context.config):
        names.append(name)
        if isinstance(value, bool):
            items.append(typed.BoolLit(BOOL, call.span, value))
        else:
            items.append(literal(value, call.span) if isinstance(value, int) else string(value.encode(), call.span))
    return typed.TupleExpr(TupleType(tuple([item.type for item in items]), tuple(names)), call.span, tuple(items))


FUNCTIONS = (
    BuiltinFunction(
        "getopt", "value", "getopt(name, [default, [description]])",
        (
            Parameter("text", "the name of getopt()"), Parameter("shown", "the default of getopt()"),
            Parameter("text", "the description of getopt()"),
        ),
        None, "the argument --name=VALUE of the program, behind --, in the type of its default; without one a bool",
        'print(getopt("limit", 10));', "bool, int64 or string", optional=2, rule=_getopt,
    ),
    BuiltinFunction(
        "config", "value", "config()", (), None, "the settings, a record", "print(config().max_strlen);", "record",
        rule=_config,
    ),
)  # fmt: skip
