"""Questions about types, which are answered before the first hit."""

from __future__ import annotations

from collections.abc import Callable

from tracer.lang import typed
from tracer.lang.builtins.model import Argument, Call, Function
from tracer.lang.types import BOOL, ArrayType, IntType, PointerType, StringType


def _question(name: str, help: str, example: str, answer: Callable[[typed.Expr], bool]) -> Function:
    def rule(call: Call) -> typed.Expr:
        return typed.BoolLit(BOOL, call.span, answer(call.args[0]))

    shown = Argument("shown", f"the argument of {name}()")
    return Function(name, "value", f"{name}(e)", (shown,), None, help, example, "bool", rule=rule)


def _is_integer(value: typed.Expr) -> bool:
    return isinstance(value.type, IntType) and not isinstance(value.type, PointerType)


FUNCTIONS = (
    _question(
        "is_integer", "whether e is an integer", "if comptime is_integer(arg0) { @ = sum(arg0); }", _is_integer
    ),
    _question(
        "is_unsigned_integer", "whether e is an integer without a sign", "print(is_unsigned_integer((uint8)1));",
        lambda value: _is_integer(value) and isinstance(value.type, IntType) and not value.type.signed,
    ),
    _question(
        "is_str", "whether e is a string", "print(is_str(comm));", lambda value: isinstance(value.type, StringType)
    ),
    _question(
        "is_ptr", "whether e is a pointer", "print(is_ptr((int8 *)arg0));",
        lambda value: isinstance(value.type, PointerType),
    ),
    _question(
        "is_array", "whether e is an array", "print(is_array((uint8[4])(int32)1));",
        lambda value: isinstance(value.type, ArrayType),
    ),
    _question(
        "is_literal", "whether e is a constant", "print(is_literal(5));",
        lambda value: isinstance(value, (typed.IntLit, typed.BoolLit, typed.StrLit)),
    ),
)  # fmt: skip
