"""Functions of types: how large they are, and where their members lie."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.lang import suggest, typed
from tracer.lang.constructs import BuiltinFunction, Call, Parameter
from tracer.lang.fold import convert, fold
from tracer.lang.types import (
    UINT64,
    NamedType,
    PointerType,
    StringType,
    StructType,
    SyscallType,
    Type,
    VariablePointer,
)
from tracer.lang.types.combine import a_type, settled
from tracer.lang.types.sizes import size_of


def _sizeof(call: Call) -> typed.Expr:
    (type,) = call.args
    if isinstance(type, SyscallType):
        return typed.IntLit(UINT64, call.span, 64)  # the string that it is in bpftrace
    behind = isinstance(type, StringType) and bool(type.trailer)  # the NUL, which bpftrace has none of
    return typed.IntLit(UINT64, call.span, size_of(settled(type)) - behind)


def _offset(call: Call, type: Type, members: list[str], span_of: int) -> int | None:
    """The offset in a struct of a member of a member."""
    offset = 0
    for name in members:
        if not isinstance(type, StructType):
            call.error(f"{a_type(type)} has no members", call.spans[span_of])
            return None
        field = type.field(name)
        if field is None:
            names = [member.name for member in type.fields if member.name]
            hint = suggest.hint(name, names, suggest.listed(names, "it is empty"))
            call.error(f"{type.name} has no member '{name}'", call.spans[span_of], hint)
            return None
        if field.width:
            call.error(f"'{name}' is a bit field, which begins inside a byte", call.spans[span_of])
            return None
        offset, type = offset + field.offset, call.context.types.complete(field.type) or field.type
    return offset


def _offsetof(call: Call) -> typed.Expr | None:
    type, members = call.args
    offset = _offset(call, type, members, 1)
    return None if offset is None else typed.IntLit(UINT64, call.span, offset)


def _container_of(call: Call) -> typed.Expr | None:
    pointer, type, members = call.args
    offset = _offset(call, type, members, 2)
    if offset is None:
        return None
    before = typed.IntLit(UINT64, call.span, offset)
    start = fold(typed.Binary(UINT64, call.span, "-", convert(pointer, UINT64), before))
    declared = isinstance(type, StructType) and call.context.types.types.get(type.name) is type
    to = PointerType(target=NamedType(str(type)) if declared else type)
    if isinstance(pointer.type, VariablePointer):
        to = replace(pointer.type, target=to.target, moved=True)
    return replace(convert(start, to), type=to)


_TYPE = Parameter("type", "a type, or a value of it")
_MEMBERS = Parameter("members", "a member, as in a or a.b")

FUNCTIONS = (
    BuiltinFunction(
        "sizeof", "value", "sizeof(type)", (_TYPE,), UINT64,
        "bytes that a value of a type takes; of an expression, which is not computed, those of its type",
        "print(sizeof(uint32));", "uint64", rule=_sizeof,
    ),
    BuiltinFunction(
        "offsetof", "value", "offsetof(type, member)", (_TYPE, _MEMBERS), UINT64,
        "offset in bytes of a member in a struct, or of a member of that member",
        "struct point { int x; int y; }; print(offsetof(struct point, y));", "uint64",
        rule=_offsetof,
    ),
    BuiltinFunction(
        "container_of", "value", "container_of(pointer, type, member)",
        (Parameter("integer", "the pointer of container_of()"), _TYPE, _MEMBERS), None,
        "pointer to the struct that holds a member, from a pointer to that member",
        "struct item { int id; struct item *next; }; "
        "$i = container_of(arg0, struct item, next); @[$i->id] = count();", "pointer",
        rule=_container_of,
    ),
)  # fmt: skip
