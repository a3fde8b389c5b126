"""Types as a program writes them → types."""

from __future__ import annotations

from itertools import takewhile

from tracer.lang import typed
from tracer.lang.builtins.registry import VALUES
from tracer.lang.fold import array_in_memory, width
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import (
    INT64,
    INTEGER_TYPES,
    ArrayType,
    CharType,
    EnumType,
    IntType,
    NamedType,
    PointerType,
    StringType,
    StructType,
    TupleType,
    Type,
    memory_size,
)
from tracer.lang.types.combine import LITERAL, settled
from tracer.lang.walk import walk

_OF_LITERALS = (ast.IntLit, ast.Param, ast.Unary, ast.Binary, ast.Ternary)
MOST_ARRAY_BYTES = 1 << 31


def named(ctx: Context, node: ast.TypeName) -> Type | None:
    """The type that a cast or a `let` names, reported where there is none."""
    type = _base(ctx, node)
    if min(ctx.words) < 8:
        from tracer.lang.check.narrow import narrowed

        type = narrowed(ctx, type, node)
    suffixes = list(node.suffixes)
    if type is None and not (node.name == "void" and suffixes):
        return None
    if node.name == "string" and suffixes and suffixes[0] is not None:
        del suffixes[0]
    while suffixes:
        if suffixes[0] is None:
            del suffixes[0]
            type = _pointer(ctx, type, node) if suffixes else PointerType(target=type)
            continue
        counts = list(takewhile(lambda count: count is not None, suffixes))
        del suffixes[: len(counts)]
        for count in reversed(counts):
            assert type is not None and count is not None
            if count * memory_size(type) > MOST_ARRAY_BYTES:
                ctx.error(f"an array cannot have {count} elements", node.span)
                return None
            type = ArrayType(type, count)
    return type


def _pointer(ctx: Context, target: Type | None, node: ast.TypeName) -> PointerType:
    """The type of an address that lies in memory."""
    if min(ctx.words) == 8:
        return PointerType(target=target)
    from tracer.lang.check.narrow import pointer

    return pointer(ctx, target, node)


def _of(ctx: Context, node: ast.Expr) -> Type | None:
    """The type of `typeof(node)`."""
    type = asked(ctx, node)
    return None if type is None else settled(type)


def asked(ctx: Context, node: ast.Expr, smallest: bool = False, in_memory: bool = False) -> Type | None:
    """The type that is asked for by its name or by a value, which is not computed; of a map with keys that of the keys.
    `smallest`: of a literal the smallest that holds it. `in_memory`: an array of chars as it lies there, without the
    room for a NUL that its text has.
    """
    if isinstance(node, ast.TypeExpr):
        type = named(ctx, node.type)
        return _pointer(ctx, type.target, node.type) if isinstance(type, PointerType) else type
    if isinstance(node, ast.Name) and node.name not in VALUES:
        declared = ctx.types.find(node.name)
        if declared is not None and not isinstance(declared, str):
            return declared
    if isinstance(node, ast.StrLit):  # with what stands behind a NUL
        return StringType(len(node.value) + 1)
    facts = ctx.known_facts.maps.get(node.name) if isinstance(node, ast.MapRef) and not node.key else None
    if facts is not None and facts.key:
        return facts.key[0] if len(facts.key) == 1 else TupleType(facts.key)
    with ctx.unread():
        value = ctx.expr(node)
    array = array_in_memory(value) if in_memory and value is not None else None
    if array is not None:
        return array[1]
    is_member = in_memory and isinstance(value, typed.Part) and not isinstance(node, ast.Call)
    if value is not None and is_member and isinstance(value.type, StringType):
        return ArrayType(CharType(), value.type.size - 1)
    return None if value is None else least(value, node) if smallest else value.type


def _base(ctx: Context, node: ast.TypeName) -> Type | None:
    if node.of is not None:
        return _of(ctx, node.of)
    name, first = node.name, node.suffixes[0] if node.suffixes else 0
    pointed = first is None
    if name == "void" and pointed:
        return None
    if name == "string":
        if first and first > ctx.config.max_strlen:
            what = f"a string has at most {ctx.config.max_strlen} bytes, not {first}"
            ctx.error(what, node.span, "config = { max_strlen = N } allows more")
            return None
        return StringType(first or ctx.config.max_strlen)
    type = ctx.types.find(name)
    if isinstance(type, str):
        ctx.error(type, node.span)
        return None
    if isinstance(type, NamedType) and not pointed:
        ctx.error(f"'{type}' is an incomplete type, which can only be pointed to", node.span, f"write {name} *")
        return None
    if type is not None:
        # A pointer needs no more than the name, which may be declared by itself, or in terms of itself.
        tag = type.name if isinstance(type, StructType | EnumType) else ""
        return NamedType(tag) if pointed and ctx.types.types.get(tag) is type else type
    if node.struct and pointed:
        return NamedType(name)
    if node.struct:
        from tracer.lang import suggest

        hint = suggest.hint(name, ctx.types.types, f"declare it before the first probe: {name} {{ int a; … }};")
        ctx.error(f"'{name}' is not declared", node.span, hint)
    elif name in ("buffer", "inet", "void"):
        ctx.error(f"a cast to {name} is not supported", node.span, "str(addr) reads a string")
    else:
        names = (*INTEGER_TYPES, *ctx.types.types)
        from tracer.lang import suggest

        hint = suggest.hint(name, names, "known are bool, string, int8 to int64, uint8 to uint64 and those declared")
        ctx.error(f"unknown type '{name}'", node.span, hint)
    return None


def least(value: typed.Expr, node: ast.Expr) -> Type:
    """The type of an expression; that of a number which is made of literals alone is the smallest that holds it."""
    if isinstance(value, typed.TupleExpr) and isinstance(node, ast.TupleExpr):
        items = zip(value.items, node.items, strict=True)
        return TupleType(tuple([least(item, part) for item, part in items]), node.names)
    if not isinstance(value, typed.IntLit) or value.type not in (LITERAL, INT64):
        return value.type
    of_literals = all(isinstance(part, _OF_LITERALS) and getattr(part, "op", "") != "~" for part in walk(node))
    return IntType(8 * width(value.value), True) if of_literals else value.type
