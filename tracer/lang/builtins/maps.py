"""What is asked of a map, and what changes it, but assignments."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.builtins.model import Argument, Call, Function, Lowering, V
from tracer.lang.types import BOOL, INT64, IntType, StringType
from tracer.lang.types.combine import a


def _len(call: Call) -> typed.Expr | None:
    (target,) = call.args
    if isinstance(target, typed.Expr):
        hint = "strlen(s) is the length of a string" if isinstance(target.type, StringType) else None
        call.error(f"len() needs a map, not {a(target.type)}", call.spans[0], hint)
        return None
    return typed.MapLen(INT64, call.span, target)


def _length(ctx: Lowering[V], node: typed.MapLen) -> V:
    ctx.ask("MAP_LENGTH", f"len({node.map})", node.span)
    return ctx.map_length(node.map, node.type, node.span)


def _zero(call: Call) -> typed.Stmt | None:
    (name,) = call.args
    facts = call.context.known.maps[name]
    type = facts.type()
    if facts.kind == "scalar" and type is not None and not isinstance(type, IntType):
        call.error(f"zero() needs a map of numbers, {name} holds {a(type)}", call.span, "clear(@map) empties it")
        return None
    return typed.Zero(call.span, name)


FUNCTIONS = (
    Function(
        "clear", "statement", "clear(@map)", (Argument("map"),), None, "removes all keys of a map", "clear(@x);",
        rule=lambda call: typed.Clear(call.span, *call.args),
    ),
    Function(
        "zero", "statement", "zero(@map)", (Argument("map"),), None, "sets all values of a map to 0", "zero(@x);",
        rule=_zero,
    ),
    Function(
        "delete", "statement", "delete(@map, key)", (Argument("element"), Argument("key")), None,
        "removes one key of a map", "delete(@start, tid);",
        optional=1, rule=lambda call: typed.Delete(call.span, *call.args[0]),
    ),
    Function(
        "len", "value", "len(@map)", (Argument("map or value"),), INT64, "number of keys of a map", "print(len(@x));",
        rule=_len, lower=_length, node=typed.MapLen,
    ),
    Function(
        "has_key", "value", "has_key(@map, key)", (Argument("map"), Argument("key")), BOOL, "whether a map holds a key",
        "if (has_key(@start, tid)) { @ = count(); }", rule=lambda call: typed.HasKey(BOOL, call.span, *call.args),
        lower=lambda ctx, node: ctx.map_has(node.map, node.key, node.span), node=typed.HasKey,
    ),
)  # fmt: skip
