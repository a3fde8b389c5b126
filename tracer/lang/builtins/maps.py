"""Functions that ask about a map or change it; assignments are elsewhere."""

from __future__ import annotations

from tracer.lang import features, typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V
from tracer.lang.types import BOOL, INT64, UINT64, StackType, StringType, operations
from tracer.lang.types.combine import a_type


def _len(call: Call) -> typed.Expr | None:
    (target,) = call.args
    if isinstance(target, typed.Expr):
        if isinstance(target.type, StackType):
            return typed.Call(UINT64, call.span, call.name, (target,))
        hint = "strlen(s) is the length of a string" if isinstance(target.type, StringType) else None
        call.error(f"len() needs a map or a stack, not {a_type(target.type)}", call.spans[0], hint)
        return None
    if call.context.known_facts.maps[target].key == ():
        call.error(f"len() needs a map with keys, {target} has none", call.spans[0])
        return None
    return typed.MapLen(INT64, call.span, target)


def _length(ctx: Lowering[V], node: typed.MapLen | typed.Call) -> V:
    if isinstance(node, typed.Call):
        return ctx.op(operations.FRAMES, UINT64, ctx.value(node.args[0]))
    ctx.ask(features.MAP_LENGTH, f"len({node.map})", node.span)
    return ctx.map_length(node.map, node.type, node.span)


def _find(call: Call) -> typed.Expr | None:
    name, key, variable = call.args
    context = call.context
    type = context.map_type(name)
    if type is None:
        return None
    conflict = context.facts.variable(variable.key).add(type, call.spans[2])
    if conflict is not None:
        what = f"{variable.name} holds {a_type(conflict)}, and {name} {a_type(type)}"
        call.error(what, call.spans[2], f"write let {variable.name}; before it")
        return None
    return typed.Find(BOOL, call.span, name, key, variable.slot)


FUNCTIONS = (
    BuiltinFunction(
        "clear", "statement", "clear(@map)", (Parameter("map"),), None, "removes all keys of a map", "clear(@x);",
        rule=lambda call: typed.Clear(call.span, *call.args),
    ),
    BuiltinFunction(
        "zero", "statement", "zero(@map)", (Parameter("map"),), None, "makes all values of a map 0 or empty",
        "zero(@x);",
        rule=lambda call: typed.Zero(call.span, *call.args),
    ),
    BuiltinFunction(
        "delete", "value", "delete(@map, key)", (Parameter("element"), Parameter("key")), BOOL,
        "removes one key of a map; whether it was there", "delete(@start, tid);",
        optional=1, acts=True, rule=lambda call: typed.Deleted(BOOL, call.span, *call.args[0]),
        lower=lambda ctx, node: ctx.map_delete(node.map, node.key, node.span), node=typed.Deleted,
    ),
    BuiltinFunction(
        "find", "value", "find(@map, key, $x)",
        (Parameter("map of values"), Parameter("key"), Parameter("variable")), BOOL,
        "whether a map holds a key; if so, $x becomes its value",
        "let $v; if (find(@start, tid, $v)) { print(nsecs - $v); }",
        acts=True, rule=_find,
        lower=lambda ctx, node: ctx.map_find(node.map, node.key, node.slot, node.span),
        node=typed.Find,
    ),
    BuiltinFunction(
        "len", "value", "len(@map) or len(stack)", (Parameter("map or value"),), INT64,
        "number of keys of a map, or of frames of a stack", "print(len(@x));",
        rule=_len, lower=_length, node=typed.MapLen,
    ),
    BuiltinFunction(
        "stack_len", "value", "stack_len(stack)", (Parameter("value"),), INT64, "the same of a stack",
        "print(stack_len(ustack));", rule=_len, lower=_length,
    ),
    BuiltinFunction(
        "has_key", "value", "has_key(@map, key)", (Parameter("map"), Parameter("key")), BOOL,
        "whether a map holds a key",
        "if (has_key(@start, tid)) { @ = count(); }", rule=lambda call: typed.HasKey(BOOL, call.span, *call.args),
        lower=lambda ctx, node: ctx.map_has(node.map, node.key, node.span), node=typed.HasKey,
    ),
)  # fmt: skip
