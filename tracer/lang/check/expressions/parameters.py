"""`args`, `args.name` and `retval`: the parameters of the function that was entered and what it returns, as debug
information describes them.

Those of events of the kernel are in `fields`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.kinds.registry import kind_of
from tracer.kinds.site import STACK_POINTER, FileSite
from tracer.lang import suggest, typed
from tracer.lang.builtins.hit.probe import FEW, RETURN_HINT
from tracer.lang.check.expressions import memory, variables
from tracer.lang.check.expressions.operands import present
from tracer.lang.fold import cast, packed, string
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import (
    UINT8,
    UINT64,
    BoolType,
    EnumType,
    IntType,
    PointerType,
    StructType,
    TupleType,
    Type,
    is_block,
    memory_size,
)
from tracer.lang.types.combine import a_type
from tracer.lang.types.outside import Parameter

_NUMBERED = "arg0, arg1, … are there without debug information"


def whole(ctx: Context, span: Span) -> typed.Expr | None:
    """`args`: a record of all."""
    if variables.at_places(ctx):
        return variables.whole(ctx, "args", span)
    if ctx.unit.reads("fields"):
        from tracer.lang.check.expressions import fields

        return fields.whole(ctx, span)
    parameters = _parameters(ctx, span)
    if parameters is None:
        return None
    if not parameters:
        ctx.error("the function has no parameters, so there are no args", span)
        return None
    readable = [parameter for parameter in parameters if not parameter.reason and parameter.type is not None]
    others = ", ".join(f"args.{parameter.name}" for parameter in readable)
    hint = f"these can be read: {others}" if others else None
    values = present([_value(ctx, parameter, span, hint) for parameter in parameters])
    if values is None:
        return None
    names = tuple(parameter.name for parameter in parameters)
    return typed.TupleExpr(TupleType(tuple(value.type for value in values), names), span, tuple(values))


def named(ctx: Context, name: str, span: Span) -> typed.Expr | None:
    """`args.name`."""
    if variables.at_places(ctx):
        return variables.named(ctx, "args", name, span)
    if ctx.unit.reads("fields"):
        from tracer.lang.check.expressions import fields

        return fields.named(ctx, name, span)
    parameters = _parameters(ctx, span)
    if parameters is None:
        return None
    wanted = next((parameter for parameter in parameters if parameter.name == name), None)
    if wanted is None:
        names = [parameter.name for parameter in parameters]
        hint = suggest.hint(name, names, f"it has {', '.join(names)}") if names else None
        ctx.error(f"the function has no parameter '{name}'", span, hint)
        return None
    return _value(ctx, wanted, span)


def part(ctx: Context, node: ast.Field) -> typed.Expr | None:
    """`args.name.member` of a parameter that cannot be read as a whole, where the member can; None elsewhere."""
    path: list[ast.Field] = []
    root: ast.Expr = node
    while isinstance(root, ast.Field):
        path.insert(0, root)
        root = root.operand
    if len(path) < 2 or not isinstance(root, ast.Name) or root.name not in ("args", "vars"):
        return None
    if root.name == "vars" or variables.at_places(ctx):
        return variables.part(ctx, path)
    if ctx.types.outside is None or not ctx.unit.places:
        return None
    parameters = ctx.types.outside().parameters(ctx.unit.places[0])
    if isinstance(parameters, str):
        return None
    parameter = next((candidate for candidate in parameters if candidate.name == path[0].name), None)
    if parameter is None or parameter.type is None or not (parameter.reason and parameter.pieces):
        return None
    if _parameters(ctx, path[0].span) is None:  # they are not those of all sites
        return None
    type, readable = ctx.types.complete(parameter.type) or parameter.type, replace(parameter, reason="")
    held = [range(offset, offset + size) for offset, size, _, _ in parameter.pieces]
    return memory.held_member(ctx, path, type, held, lambda: _at_entry(ctx, readable, type, path[0].span))


def _parameters(ctx: Context, span: Span) -> tuple[Parameter, ...] | None:
    """The parameters that all the functions of the clause have."""
    unit = ctx.unit
    if not unit.reads("probe"):
        ctx.untyped(f"args is not known in {unit.place}", span, "args is for uprobes")
        return None
    if unit.returns_only:
        ctx.error("args is not known when the function returns", span, RETURN_HINT.replace("arg0", "args.name"))
        return None
    sites = [site for site in unit.places if kind_of(site).enters]
    if not sites or len(sites) < len(unit.sites) or ctx.types.outside is None:
        where = "is known only where a function is entered" if unit.sites else "needs a function, and there is none"
        ctx.error(f"args {where}", span, "args is for uprobes; a USDT probe has arg0, arg1, …")
        return None
    first: tuple[Parameter, ...] | None = None
    for site in sites:
        parameters = ctx.types.outside().parameters(site)
        if isinstance(parameters, str):
            ctx.error(f"the parameters of {site.probe} are not known: {parameters}", span, _NUMBERED)
            return None
        if first is not None and parameters != first:
            what, hint = f"{site.probe} has other parameters than {sites[0].probe}", "write a clause for each of them"
            if site.probe == sites[0].probe:  # static functions of several source files
                one, other = f"{sites[0].address:#x}", f"{site.address:#x}"
                what = f"args cannot be those of two functions: {site.function} at {other} has others than at {one}"
                hint = f"name one by its address, as in uprobe:{site.path}:{one}"
            ctx.error(what, span, hint)
            return None
        first = parameters
    return first


def _value(ctx: Context, parameter: Parameter, span: Span, hint: str | None = None) -> typed.Expr | None:
    type, what = parameter.type, f"args.{parameter.name}"
    if parameter.reason or type is None:
        if parameter.pieces and hint is None:
            hint = f"a member that is elsewhere can be: {what}.MEMBER"
        ctx.error(f"{what} ({parameter.text}) cannot be read: {parameter.reason}", span, hint)
        return None
    complete = ctx.types.complete(type)
    if parameter.reference and (complete is None or not (isinstance(complete, IntType) or is_block(complete))):
        type = complete = memory.pointer_to(ctx, type)
    elif parameter.reference:
        pointer = _at_entry(ctx, parameter, memory.pointer_to(ctx, type), span)
        return pointer and memory.load(ctx, complete or type, pointer, 0, span)
    return _at_entry(ctx, parameter, complete or type, span)


def _at_entry(ctx: Context, parameter: Parameter, type: Type, span: Span) -> typed.Expr | None:
    if parameter.indirect:
        address = _at_entry(ctx, replace(parameter, indirect=False), memory.pointer_to(ctx, type), span)
        return address and memory.load(ctx, type, address, 0, span)
    if parameter.stack is not None:
        return memory.load(ctx, type, typed.Arg(UINT64, span, STACK_POINTER), parameter.stack, span)
    if isinstance(type, IntType):
        first, *more = parameter.pieces
        value: typed.Expr = typed.Arg(UINT64, span, first[2])
        for offset, _, index, _ in more:  # two words of i386
            above = typed.IntLit(UINT64, span, 8 * offset)
            high = typed.Binary(UINT64, span, "<<", typed.Arg(UINT64, span, index), above)
            value = typed.Binary(UINT64, span, "|", value, high)
        return cast(value, type)
    if not is_block(type):
        ctx.error(f"args.{parameter.name} is {a_type(type)}, which cannot be read", span)
        return None
    words = [
        (offset, size, typed.Arg(UINT64, span, index), shift) for offset, size, index, shift in parameter.pieces
    ]
    return packed(type, words, span)


def _has_type(context: Context) -> bool:
    """Whether `retval` has the type of debug information: in a uretprobe it is bpftrace's uint64, unless the program
    says otherwise.
    """
    return context.config.typed_retval or context.unit.reads("call")


def result(context: Context, span: Span) -> typed.Expr | None:
    """`retval`, of the type that all functions of the clause return, else the uint64 that is in the register."""
    unit = context.unit
    places = (unit.until or unit).places  # each `ret` of a function is one, and functions of one name are some
    whole = _in_two(context, places, span) or typed.Retval(UINT64, span)
    functions = {site.probe for site in places}
    if not _has_type(context) or context.types.outside is None or not 0 < len(functions) <= FEW:
        return whole
    outside = context.types.outside()
    types = [outside.result_type(site) for site in places]
    type, *others = types
    if any(other != type for other in others):
        _warn_of_types(context, dict(zip([site.probe for site in places], types, strict=True)), span)
        return whole
    if isinstance(type, str) and (struct := _struct(context, places, span)) is not None:
        return struct
    if isinstance(type, BoolType):
        return cast(cast(whole, UINT8), type)  # the ABI says nothing of the register's other bytes
    return cast(whole, type) if isinstance(type, IntType) and type.bits <= 64 else whole


def _struct(context: Context, places: Sequence[FileSite], span: Span) -> typed.Expr | None:
    """The struct that all these functions return; None where they return none, or not all the same."""
    assert context.types.outside is not None
    outside = context.types.outside()
    held, *others = {outside.struct_result(site) for site in places}
    type = None if held is None or held.type is None or others else context.types.complete(held.type)
    if held is None or not isinstance(type, StructType):
        return None
    first = typed.Retval(UINT64, span)
    if held.reason:
        what = f"a part of {held.text}, which {places[0].probe} returns, is not in retval: {held.reason}"
        context.warn(what, span, "retval is the part in the first general register, as a number")
        return first
    if held.indirect:
        if memory_size(type) > memory.MOST_BYTES:
            return cast(first, memory.pointer_to(context, type))
        return memory.load(context, type, first, 0, span)
    words: tuple[typed.Expr, ...] = first, typed.Call(UINT64, span, "reg", (string(b"dx", span),))
    return packed(type, [(*piece[:2], words[piece[2]], piece[3]) for piece in held.pieces], span)


def _warn_of_types(context: Context, types: dict[str, Type | str], span: Span) -> None:
    """Where one type is signed or narrow, and another is not that, a number of it looks like another."""
    numbers = {
        shown: f"{type}" for shown, type in types.items()
        if isinstance(type, IntType) and not isinstance(type, PointerType | EnumType)
    }  # fmt: skip
    if len(set(numbers.values())) < 2:
        return
    (one, type), *others = numbers.items()
    other, another = next(pair for pair in others if pair[1] != type)
    what = f"retval is {type} in {one} and {another} in {other}: here it is uint64, the whole register"
    context.warn(what, span, "write a clause for each type, or a cast")


def _in_two(context: Context, places: Sequence[FileSite], span: Span) -> typed.Expr | None:
    """`retval` of 32-bit functions that return 64 bits; None of others."""
    narrow = {site.probe: site for site in places if site.word == 4} if min(context.words) < 8 else {}
    if not narrow or context.types.outside is None or len(narrow) > FEW:
        return None
    outside = context.types.outside()
    wide = [name for name, site in narrow.items() if outside.is_in_two(site)]
    other = next((site.probe for site in places if site.probe not in wide), None)
    if not wide:
        return None
    if other is not None:
        what = f"the retval of {wide[0]} is in two registers, and that of {other} in one"
        context.error(what, span, "write a clause for each of them")
        return None
    high = typed.Call(UINT64, span, "reg", (string(b"dx", span),))
    above = typed.Binary(UINT64, span, "<<", high, typed.IntLit(UINT64, span, 32))
    low = typed.Binary(UINT64, span, "&", typed.Retval(UINT64, span), typed.IntLit(UINT64, span, (1 << 32) - 1))
    return typed.Binary(UINT64, span, "|", above, low)
