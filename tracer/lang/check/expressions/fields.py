"""`args` and `args.name` at events of the kernel: the fields of their records, with the types that the kernel says."""

from __future__ import annotations

import re

from tracer.errors import Span
from tracer.kinds.kernel_event import Field
from tracer.kinds.site import ArgSpec
from tracer.lang import suggest, typed
from tracer.lang.check.expressions import memory
from tracer.lang.check.expressions.operands import present
from tracer.lang.fold import cast
from tracer.lang.scope.context import Context
from tracer.lang.types import (
    INT64,
    UINT64,
    ArrayType,
    BoolType,
    CharType,
    IntType,
    NamedType,
    PointerType,
    StringType,
    TupleType,
    Type,
    memory_size,
)
from tracer.lang.types.combine import a_type

_ARRAY = re.compile(r"(.*\S)\s*\[(\d+)\]")
_KERNELS = {
    "umode_t": IntType(16, False), "aio_context_t": IntType(64, False), "timer_t": IntType(32, True),
    "mqd_t": IntType(32, True), "rwf_t": IntType(32, True), "qid_t": IntType(32, False),
    "key_serial_t": IntType(32, True), "dev_t": IntType(32, False), "gfp_t": IntType(32, False),
    "sector_t": IntType(64, False),
}  # fmt: skip
"""Types of the kernel that the language does not know, or knows as those of programs."""

_QUALIFIERS = frozenset(("const", "volatile", "__user", "__kernel", "__iomem", "__rcu", "restrict"))


def whole(ctx: Context, span: Span) -> typed.Expr | None:
    """`args`: a record of all fields that can be read."""
    fields = _fields(ctx)
    readable = [field for field in fields if not (field.beside or isinstance(_type(ctx, field), str))]
    if not readable:
        ctx.error(f"{ctx.unit.sites[0].probe} has no fields that can be read, so there are no args", span)
        return None
    values = present([named(ctx, field.name, span) for field in readable])
    if values is None:
        return None
    names = tuple(field.name for field in readable)
    return typed.TupleExpr(TupleType(tuple(value.type for value in values), names), span, tuple(values))


def named(ctx: Context, name: str, span: Span) -> typed.Expr | None:
    """`args.name`, which all the events of the clause must have in the same place among their fields."""
    places: dict[tuple[int, str, int, bool], str] = {}
    for site in ctx.unit.sites:
        index, spec = next(((place, arg) for place, arg in enumerate(site.args) if arg.text == name), (-1, None))
        if spec is None:
            names = [arg.text for arg in site.args]
            listed = f"it has {', '.join(names)}" if names else "it has none"
            ctx.error(f"{site.probe} has no field '{name}'", span, suggest.hint(name, names, listed))
            return None
        places.setdefault((index, _field(spec).declared, _field(spec).size, _field(spec).signed), site.probe)
    if len(places) > 1:
        one, other, *_ = places.values()
        ctx.error(f"args.{name} is another in {other} than in {one}", span, "write a clause for each of them")
        return None
    if not places:
        ctx.untyped(f"args.{name} needs an event, and there is none", span)
        return None
    ((index, *_),) = places
    return _value(ctx, index, _field(ctx.unit.sites[0].args[index]), span)


def _fields(ctx: Context) -> list[Field]:
    return [_field(spec) for spec in ctx.unit.sites[0].args] if ctx.unit.sites else []


def _field(spec: ArgSpec) -> Field:
    assert isinstance(spec.operand, Field)
    return spec.operand


def _value(ctx: Context, index: int, field: Field, span: Span) -> typed.Expr | None:
    pointer = typed.Arg(UINT64, span, index)
    type = _type(ctx, field)
    if isinstance(type, str):
        ctx.error(f"args.{field.name} ({field.declared}) cannot be read: {type}", span)
        return None
    if isinstance(type, StringType):
        return typed.Str(type, span, pointer, False)
    if not field.number:
        return memory.load(ctx, type, pointer, 0, span)
    if isinstance(type, BoolType):
        type = IntType(8, False)
    assert isinstance(type, IntType)
    whole = INT64 if field.signed else UINT64
    value = typed.Arg(whole, span, index)
    return value if type == whole else cast(value, type)


def _type(ctx: Context, field: Field) -> Type | str:
    """The type of a field; why it has none that can be read."""
    declared = field.declared
    if field.located:
        _, _, item = declared.partition(" ")
        if item in ("char[]", "const char[]"):
            return StringType(ctx.config.max_strlen)
        return "its length is known only at the hit"
    if (array := _ARRAY.fullmatch(declared)) is not None:
        return _array(_named(ctx, array[1]), int(array[2]), field.size)
    type = _named(ctx, declared)
    if field.number:
        if isinstance(type, BoolType) or (isinstance(type, IntType) and type.bits <= 8 * field.size):
            return type
        return IntType(8 * field.size, field.signed)
    if type is not None and memory_size(type) == field.size:
        return type
    return f"'{declared}' is not declared" if type is None else f"{a_type(type)} has other bytes than its {field.size}"


def _array(item: Type | None, count: int, size: int) -> Type | str:
    item_size = size // count if count else 0
    if item is not None and memory_size(item) == item_size:
        return ArrayType(item, count)
    regular = item_size in (1, 2, 4, 8) and item_size * count == size
    return ArrayType(IntType(8 * item_size, False), count) if regular else "it is an array of an unknown type"


def _named(ctx: Context, declared: str) -> Type | None:
    words = [word for word in declared.replace("*", " * ").split() if word not in _QUALIFIERS]
    depth = words.count("*")
    name = " ".join(word for word in words if word != "*")
    if not depth:
        type = _KERNELS.get(name) or ctx.types.find(name)
        return None if isinstance(type, str) else type
    target: Type | None = None if name == "void" else CharType() if name == "char" else NamedType(name)
    for _ in range(depth - 1):
        target = PointerType(target=target)
    return PointerType(target=target)
