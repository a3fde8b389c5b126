"""Types by their names in clauses over 32-bit programs, where an address and C's `long` have four bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import ArrayType, FloatType, IntType, NamedType, PointerType, StructType, Type, memory_size

_OF_A_WORD = frozenset(("size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t"))
_LONG = frozenset(("long", "int", "signed", "unsigned"))


def pointer(ctx: Context, target: Type | None, node: ast.TypeName) -> PointerType:
    """The type of an address that lies in memory."""
    return PointerType(8 * _word(ctx, node), target=target)


def narrowed(ctx: Context, type: Type | None, node: ast.TypeName) -> Type | None:
    """A type that was found under a name, as the clause's programs have it, of which some are of 32 bits."""
    words = node.name.split()
    if isinstance(type, IntType) and (
        node.name in _OF_A_WORD or (_LONG.issuperset(words) and words.count("long") == 1)
    ):
        return IntType(8 * _word(ctx, node), type.signed)
    declared = ctx.types.types.get(node.name)
    if declared is None and isinstance(type, NamedType):
        declared = ctx.types.types.get(type.name)
    if isinstance(declared, StructType):
        what = ""
        if any(isinstance(part, PointerType) for part in _parts(declared)):
            what = f"the program declares {declared} with pointers of 8 bytes, and those of a 32-bit program have 4"
        elif _has_gaps(declared):
            what = f"the program lays {declared} out for 64 bits, and 32-bit programs put 8 bytes at multiples of 4"
        if what:
            ctx.error(what, node.span, "declare it with uint32 or packed, or leave it to the file's debug information")
    return type


def _word(ctx: Context, node: ast.TypeName) -> int:
    """The bytes of an address."""
    if len(ctx.words) > 1:
        what = f"{node.name} has 4 bytes in some of the clause's files and 8 in others"
        ctx.error(what, node.span, "write a clause for each of them")
    return min(ctx.words)


def _has_gaps(type: StructType) -> bool:
    """Whether a member stands further back than 32-bit programs put it."""
    end = 0
    for field in type.fields:
        eight = any(isinstance(part, IntType | FloatType) and part.bits == 64 for part in _parts(field.type))
        if eight and field.offset > -(-end // 4) * 4:
            return True
        if isinstance(field.type, StructType) and _has_gaps(field.type):
            return True
        end = max(end, field.offset + memory_size(field.type))
    return False


def _parts(type: Type, deep: int = 0) -> Iterator[Type]:
    if isinstance(type, StructType) and deep < 16:
        for field in type.fields:
            yield from _parts(field.type, deep + 1)
    elif isinstance(type, ArrayType) and deep < 16:
        yield from _parts(type.item, deep + 1)
    else:
        yield type
