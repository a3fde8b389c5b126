"""Maps: their keys, what they hold, and the errors where two uses disagree."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.check.expressions.memory import step
from tracer.lang.check.expressions.operands import present
from tracer.lang.check.expressions.operators import warn_of_bend
from tracer.lang.fold import convert, tuple_items
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import INT64, IntType, TupleType, Type, VariablePointer, is_block, memory_size
from tracer.lang.types.combine import LITERAL, a_type, join, say, stored

MOST_KEY_BYTES = 1 << 16
KEY_HINT = "all uses of a map have the same number and types of keys"


def defined(ctx: Context, node: ast.MapRef) -> bool:
    """Whether some clause assigns the map; reports it otherwise."""
    maps = ctx.known_facts.maps
    if node.name in maps and maps[node.name].kind is not None:
        return True
    assigned = [other for other, facts in maps.items() if facts.kind is not None]
    from tracer.lang import suggest

    hint = suggest.hint(node.name, assigned, f"no clause assigns {node.name}")
    ctx.error(f"undefined map {node.name}", node.name_span, hint)
    return False


def whole(ctx: Context, node: ast.Expr, function: str) -> str | None:
    """The name of a map that a function takes as a whole."""
    if not isinstance(node, ast.MapRef):
        ctx.error(f"{function}() needs a map", node.span, f"write {function}(@name)")
        return None
    if node.key:
        ctx.error(f"{function}() takes the whole map", node.span, f"write {function}({node.name})")
        return None
    return node.name if defined(ctx, node) else None


def key(ctx: Context, name: str, nodes: Iterable[ast.Expr], span: Span) -> tuple[typed.Expr, ...] | None:
    """The typed key of one use of a map, converted to the map's key types; records the use."""
    parts = present([ctx.expr(node) for node in nodes])
    if parts is None:
        return None
    if len(parts) == 1 and isinstance(parts[0].type, TupleType) and not parts[0].type.names:
        parts = list(tuple_items(parts[0]))
    for part in parts:
        if is_block(part.type) and not memory_size(part.type):
            ctx.error(f"{a_type(part.type)} has no bytes, and cannot be a key", part.span, "use one of its elements")
            return None
        if memory_size(part.type) > MOST_KEY_BYTES:
            what = f"{a_type(part.type)} has {memory_size(part.type)} bytes, too many for a key"
            ctx.error(what, part.span, "use one of its members or elements")
            return None
    if not _agree(ctx, name, tuple(stored(part.type) for part in parts), span):
        return None
    types = ctx.known_facts.maps[name].key if name in ctx.known_facts.maps else None
    if types is None or len(types) != len(parts):
        return tuple(parts)
    if None in [join(stored(part.type), type) for part, type in zip(parts, types, strict=True)]:
        return tuple(parts)  # another part of the program has a key of another type: it is told when both are known
    for part, type in zip(parts, types, strict=True):
        warn_of_bend(ctx, part, type)
    return tuple([convert(part, type) for part, type in zip(parts, types, strict=True)])


def _agree(ctx: Context, name: str, types: tuple[Type, ...], span: Span) -> bool:
    facts = ctx.facts.map(name)
    if facts.key is None or facts.key_span is None:
        facts.key, facts.key_span = types, span
        return True
    place = ctx.position_of(facts.key_span)
    if len(types) != len(facts.key):
        ctx.error(f"{name} has {_count(types)} here, but {_count(facts.key)} at {place}", span, KEY_HINT)
        return False
    common = [join(one, other) for one, other in zip(facts.key, types, strict=True)]
    if None in common:
        here, there = _keys(types), _keys(facts.key)
        ctx.error(
            f"the key of {name} is {here} here, but {there} at {place}", span, KEY_HINT
        )
        return False
    facts.key = tuple(type for type in common if type is not None)
    return True


def hold(ctx: Context, node: ast.MapRef, kind: str, parameters: tuple[int, ...] = ()) -> bool:
    """Records what an assignment makes the map hold; whether that agrees with the assignments before."""
    facts = ctx.facts.map(node.name)
    facts.value.assigned = True
    if facts.kind is None:
        facts.kind, facts.kind_span, facts.parameters = kind, node.span, parameters
        return True
    place = ctx.position_of(facts.kind_span)
    if facts.kind != kind:
        ctx.error(
            f"{node.name} holds {_kind(kind)} here, but {_kind(facts.kind)} at {place}",
            node.span,
            "a map holds one kind of value: use another map",
        )
        return False
    if facts.parameters != parameters:
        ctx.error(
            f"{node.name} has other parameters for {kind}() at {place}",
            node.span,
            f"a {AGGREGATIONS[kind].shown} has one set of {AGGREGATIONS[kind].constants}",
        )
        return False
    return True


def assigned_value(ctx: Context, node: ast.MapRef, type: Type, span: Span) -> None:
    """Records a plain assignment of a value of this type."""
    facts = ctx.facts.map(node.name).value
    conflict = facts.add(stored(type), span)
    if conflict is not None:
        ctx.error(
            f"{node.name} is assigned {a_type(type)} here, but {a_type(conflict)} at {ctx.position_of(facts.span)}",
            span,
            mismatch_hint(type, conflict),
        )


def read(ctx: Context, node: ast.MapRef) -> typed.Expr | None:
    """`@x[key]` as a value."""
    parts = key(ctx, node.name, node.key, node.span)
    if not defined(ctx, node) or parts is None:
        return None
    type = single(ctx, node.name, node.span)
    return None if type is None else typed.MapGet(type, node.span, node.name, parts)


def single(ctx: Context, name: str, span: Span) -> Type | None:
    """The type of a map's values, as far as it is known; reports a map whose keys have no single value."""
    facts = ctx.known_facts.maps[name]
    if facts.kind is not None and facts.kind in AGGREGATIONS and not AGGREGATIONS[facts.kind].single:
        what = f"{name} is a {AGGREGATIONS[facts.kind].shown}, which has no single value"
        ctx.error(what, span, f"print({name}) prints all of it")
        return None
    return facts.type()


def address(ctx: Context, node: ast.MapRef, span: Span) -> typed.Expr | None:
    """`&@x`: a made-up number, as a program has no functions of C that could use the map there."""
    type = ctx.known_facts.maps[node.name].type() if defined(ctx, node) else None
    if type is None:
        return None
    start = 0xFFFF_8880_0000_0000 + (crc32(node.name.encode()) << 12)
    return typed.IntLit(VariablePointer(target=stored(type)), span, start)


def increment(ctx: Context, node: ast.IncDec, target: ast.MapRef, delta: int) -> typed.Expr | None:
    """`@x[key]++` and its kin."""
    parts = key(ctx, target.name, target.key, target.span)
    if not hold(ctx, target, "scalar") or parts is None:
        return None
    ctx.facts.map(target.name).value.add_weak(LITERAL if delta > 0 else INT64, node.span)
    type = ctx.map_type(target.name)
    if type is None:
        return None
    if not isinstance(type, IntType):
        ctx.error(f"'{node.op}' needs an integer, {target.name} holds {a_type(type)}", node.span)
        return None
    return typed.MapIncr(type, node.span, target.name, parts, delta * step(ctx, type, node.span), node.prefix)


def element(ctx: Context, node: ast.Call) -> tuple[str, tuple[typed.Expr, ...]] | None:
    """The map and key that `delete()` removes: `@x, key`, `@x[key]`, or `@x` without a key."""
    target = node.args[0]
    if not isinstance(target, ast.MapRef):
        ctx.error(f"{node.name}() needs a map", target.span, f"write {node.name}(@map, key)")
        return None
    if len(node.args) == 2 and target.key:
        what = f"{node.name}() takes the map without a key, and the key"
        ctx.error(what, node.span, f"write {node.name}({target.name}, key), for each key")
        return None
    if not defined(ctx, target):
        return None
    nodes = node.args[1:] or target.key
    if not nodes and ctx.known_facts.maps[target.name].key:
        what = f"{node.name}() needs a key: {target.name} has keys"
        ctx.error(what, node.span, f"clear({target.name}) removes all of them")
        return None
    parts = key(ctx, target.name, nodes, node.args[-1].span)
    return None if parts is None else (target.name, parts)


def mismatch_hint(one: Type, other: Type) -> str | None:
    """The remedy for two types that do not go together."""
    if "string" in {say(one), say(other)} and {str(one), str(other)} & {"int64", "uint64"}:
        return "str(addr) reads the string at an address"
    return None


def _count(types: tuple[Type, ...]) -> str:
    return "no key" if not types else f"a key of {len(types)} part{'s' if len(types) > 1 else ''}"


def _keys(types: tuple[Type, ...]) -> str:
    return a_type(types[0]) if len(types) == 1 else f"({', '.join(map(say, types))})"


def _kind(kind: str) -> str:
    return "a plain value" if kind == "scalar" else f"{kind}()"
