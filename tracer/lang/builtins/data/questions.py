"""Questions about types, which are answered before the first hit."""

from __future__ import annotations

from collections.abc import Callable

from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.fold import string
from tracer.lang.types import BOOL, UINT64, ArrayType, IntType, PointerType, StringType, TupleType, Type


def _question(name: str, help: str, example: str, answer: Callable[[typed.Expr], bool]) -> BuiltinFunction:
    def rule(call: Call) -> typed.Expr:
        return typed.BoolLit(BOOL, call.span, answer(call.args[0]))

    shown = Parameter("shown", f"the argument of {name}()")
    return BuiltinFunction(name, "value", f"{name}(e)", (shown,), None, help, example, "bool", rule=rule)


def _is_integer(value: typed.Expr) -> bool:
    return isinstance(value.type, IntType) and not isinstance(value.type, PointerType)


def _typeinfo(call: Call) -> typed.Expr:
    call.context.stable("typeinfo", "typeinfo()", call.span)
    base, full = [string(word.encode(), call.span) for word in call.args[0]]
    names = ("btf_id", "base_type", "full_type")
    type = TupleType((UINT64, base.type, full.type), names)
    return typed.TupleExpr(type, call.span, (typed.IntLit(UINT64, call.span, 0), base, full))


def _is_scalar(call: Call) -> typed.Expr:
    return typed.BoolLit(BOOL, call.span, not call.context.known_facts.maps[call.args[0]].key)


def _assert_str(call: Call) -> tuple[()]:
    """`assert_str(…)`, whose messages have bpftrace's words."""
    type: Type | None = call.args[0].type
    word = "arrays" if isinstance(type, ArrayType) else "pointers"
    item = type.item if isinstance(type, ArrayType) else type.target if isinstance(type, PointerType) else None
    if item is not None and item != IntType(8, True):
        verb = "contain" if word == "arrays" else "point to"
        call.error(f"string-like {word} must {verb} a char-like type", call.spans[0], "it is an int8")
    elif item is None and not isinstance(type, StringType):
        call.error("string-like values must be either strings, arrays or pointers", call.spans[0])
    return ()


def _check_key(call: Call) -> tuple[()]:
    name, _, function = call.args
    if not call.context.known_facts.maps[name].key:
        call.error(f"call to {function} expects a map with explicit keys (non-scalar map)", call.spans[0])
    return ()


def _in_userspace(call: Call) -> tuple[()]:
    if not call.context.unit.reads("probe"):
        call.context.misplaced(f"{call.args[0]} can not be used in {call.context.unit.place}", call.span)
    return ()


FUNCTIONS = (
    _question(
        "is_integer", "whether e is an integer", "if comptime is_integer(arg0) { @ = sum(arg0); }", _is_integer
    ),
    _question(
        "is_unsigned_integer", "whether e is an unsigned integer", "print(is_unsigned_integer((uint8)1));",
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
    BuiltinFunction(
        "is_scalar", "value", "is_scalar(@map)", (Parameter("map"),), BOOL, "whether a map has no keys",
        "@x[1] = 2; print(is_scalar(@x));", "bool", rule=_is_scalar,
    ),
    BuiltinFunction(
        "typeinfo", "value", "typeinfo(type)", (Parameter("described", "a type, or a value of it"),), None,
        "what bpftrace calls a type, a record: btf_id (0), base_type and full_type",
        'if comptime (typeinfo(arg0).base_type == "int") { @ = sum(arg0); }', "record", rule=_typeinfo,
    ),
    BuiltinFunction(
        "assert_str", "statement", "assert_str(e)", (Parameter("value"),), None,
        "refuses the program where e is no string, nor an array or pointer of int8", "assert_str(comm);",
        rule=_assert_str,
    ),
    BuiltinFunction(
        "check_key", "statement", "check_key(@map, key, name)",
        (Parameter("map"), Parameter("key"), Parameter("text", "the name of check_key()")), None,
        "refuses the program where the map cannot have such a key", '@x[1] = 2; check_key(@x, 3, "mine()");',
        rule=_check_key,
    ),
    BuiltinFunction(
        "assert_userspace_probe", "statement", "assert_userspace_probe(name)",
        (Parameter("text", "the name of assert_userspace_probe()"),), None,
        "refuses the program if it stands in BEGIN, END or an interval",
        'assert_userspace_probe("mine()");', rule=_in_userspace,
    ),
)  # fmt: skip
