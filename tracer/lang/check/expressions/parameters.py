"""`args` and `args.name`: the parameters of the function that was entered, as debug information describes them.

Those of events of the kernel are in `fields`.
"""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.kinds.registry import kind_of
from tracer.kinds.site import STACK_POINTER
from tracer.lang import suggest, typed
from tracer.lang.builtins.hit.probe import RETURN_HINT
from tracer.lang.check.expressions import memory, variables
from tracer.lang.check.expressions.operands import present
from tracer.lang.fold import cast, convert, fold
from tracer.lang.scope.context import Context
from tracer.lang.syntax import ast
from tracer.lang.types import UINT64, IntType, TupleType, Type, is_block, memory_size
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
    items: list[typed.Expr] = []
    end = 0
    for offset, size, index, shift in parameter.pieces:
        items += [typed.IntLit(IntType(8, False), span, 0)] * (offset - end)
        word: typed.Expr = typed.Arg(UINT64, span, index)
        if shift:
            word = fold(typed.Binary(UINT64, span, ">>", word, typed.IntLit(UINT64, span, shift)))
        items.append(convert(word, IntType(8 * size, False)))
        end = offset + size
    items += [typed.IntLit(IntType(8, False), span, 0)] * (memory_size(type) - end)  # what aligns it
    return typed.Pack(type, span, tuple(items))

