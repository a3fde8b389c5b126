"""Values of the probe that was hit: its names, its arguments, the return value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.errors import Span
from tracer.kinds.arch import native
from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, Value
from tracer.lang.fold import string
from tracer.lang.types import BOOL, INT64, UINT64, FloatType, IntType, PointerType, StringType, Type, operations
from tracer.lang.types.combine import NOTED

if TYPE_CHECKING:
    from tracer.lang.scope.context import Context

_FEW = 16
"""Functions up to which debug information is asked what they return."""

RETURN_HINT = "keep it from a uprobe on the same function: @a[tid] = arg0; the value that is returned is retval"


def _probe(context: Context) -> Type:
    names = [site.probe for site in context.unit.sites] or [point.kind for point in context.unit.points]
    return StringType(max(len(text.encode("utf-8", "surrogateescape")) for text in names) + 1)


def _function(context: Context) -> Type:
    sites = context.unit.sites if context.unit.kind.at_hits else ()
    return StringType(max((len(site.function.encode()) for site in sites), default=63) + 1)


def argument(context: Context, name: str, index: int, span: Span) -> typed.Expr | None:
    """`argN`, which a site has or has not."""
    unit = context.unit
    if not unit.reads("probe"):
        hint = "arguments belong to usdt and uprobe probes" + "; fields are args.NAME" * unit.reads("fields")
        misplaced = context.misplaced(f"{name} is not known in {unit.place}", span, hint)
        return None if misplaced else typed.Arg(UINT64, span, index)
    if unit.returns_only:
        context.error(f"{name} is not known when the function returns", span, RETURN_HINT)
        return None
    counts = [len(site.args) for site in unit.reading("arguments")]
    if counts and index >= max(counts):
        _no_argument(context, name, max(counts), span)
        return None
    type = _argument_type(context, name, index, span)
    return None if type is None else typed.Arg(type, span, index)


def _argument_type(context: Context, name: str, index: int, span: Span) -> IntType | FloatType | None:
    """One type for all sites: signed where the note of one of them says so."""
    sites = [site for site in context.unit.sites if index < len(site.args)]
    specs = [site.args[index] for site in sites]
    real = next((spec for spec in specs if spec.is_float), None)
    if real is not None:
        other = next((at for at, spec in enumerate(specs) if (spec.is_float, spec.size) != (True, real.size)), None)
        if other is None:
            return FloatType(8 * real.size)
        message = f"{name} is a float{8 * real.size} at {sites[specs.index(real)].shown} ({real.text})"
        where = f"{sites[other].shown} ({specs[other].text})"
        context.error(f"{message}, but not at {where}", span, "write a clause for each of them")
        return None
    if any(spec.signed for spec in specs):
        return INT64
    return NOTED if sites and len(context.unit.reading("note")) == len(context.unit.sites) else UINT64


def check_result(context: Context, span: Span) -> None:
    """Refuses `retval` of functions that return nothing; warns where only some of the clause's do."""
    sites = {site.probe: site for site in context.unit.places}
    if context.types.outside is None or not context.final or len(sites) > _FEW:
        return
    outside = context.types.outside()
    reasons = [(name, reason) for name, site in sites.items() if (reason := outside.no_result(site))]
    if reasons and len(reasons) == len(sites):
        context.error(f"there is no retval of {reasons[0][0]}: {reasons[0][1]}", span)
        return
    for name, reason in reasons:
        context.warn(f"there is no retval of {name}: {reason}", span, "what is shown of it means nothing")


def _no_argument(context: Context, name: str, count: int, span: Span) -> None:
    unit = context.unit
    site = next(site for site in unit.reading("arguments") if len(site.args) == count)
    hint = None if count == 0 else "there is only arg0" if count == 1 else f"there are arg0 to arg{count - 1}"
    if count and not unit.reads("note", unit.points[site.point]):
        reason = f"the calling convention has a place for {count} arguments"
    else:
        reason = f"{site.probe} has {count or 'no'} argument{'s' if count != 1 else ''}"
    context.error(f"{name} does not exist: {reason}", span, hint)


def _text(ctx: Lowering[V], node: typed.Builtin) -> V:
    if ctx.clause.kind.at_hits:
        return ctx.site_text(node.name, node.type)
    text = ctx.clause.sites[0].probe if node.name == "probe" and ctx.clause.sites else ""
    return ctx.constant(text.encode("utf-8", "surrogateescape"), node.type)


def _probe_type(ctx: Lowering[V], node: typed.Builtin) -> V:
    """The part of the probe's name before the first colon."""
    kinds = tuple(dict.fromkeys(site.kind for site in ctx.clause.sites))
    if not kinds or not ctx.clause.kind.at_hits:
        return ctx.constant(ctx.clause.kind.type.encode(), node.type)
    whole = ctx.site_text("probe", StringType(max(len(site.probe.encode()) for site in ctx.clause.sites) + 1))
    chosen = ctx.constant(kinds[-1].encode(), node.type)
    for kind in kinds[:-1]:
        begin, count = f"{kind}:".encode(), ctx.constant(len(kind) + 1, UINT64)
        begins = ctx.op(operations.STARTS, BOOL, whole, ctx.constant(begin, StringType(len(begin) + 1)), count)
        chosen = ctx.select(begins, ctx.constant(kind.encode(), node.type), chosen)
    return chosen


VALUES = (
    Value(
        "probetype", StringType(16), "kind of the probe: uprobe, uretprobe, usdt, tracepoint, interval or special",
        "@[probetype] = count();", shown="string", lower=_probe_type,
    ),
    Value("probe", _probe, "full name of the probe that was hit", "@[probe] = count();", shown="string", lower=_text),
    Value(
        "func", _function, "name of the function that holds the probe", "@[func] = count();", "probe", "string",
        lower=_text,
    ),
    Value(
        "retval", UINT64, "value that the function returns", "@ = hist(retval);", "return", node=typed.Retval,
        lower=lambda ctx, node: ctx.return_value(node.span),
    ),
)  # fmt: skip


def _register(call: Call) -> typed.Expr | None:
    (name,) = call.args
    arch = native()
    known = () if arch is None else arch.registers
    other = {"pc": "ip", "ip": "pc"}.get(name, f"x{name[1:]}" if name.startswith("r") else name)
    own = name if name in known else other
    if own not in known:
        every = known if "pc" in known else (*known, "pc")
        call.error(f"there is no register '{name}' here", call.spans[0], f"there are {', '.join(every)}")
        return None
    return typed.Call(UINT64, call.span, call.name, (string(own.encode(), call.spans[0]),))


def _read_register(ctx: Lowering[V], call: typed.Call) -> V:
    (name,) = call.args
    assert isinstance(name, typed.StrLit)
    return ctx.register(name.value.decode(), call.span)


def _variable(call: Call) -> typed.Expr | None:
    """The load bias comes with the hit: the probe's own address is what the instruction pointer holds less it."""
    context, (name,) = call.context, call.args
    sites, arch = context.unit.places, native()
    inside = [site for site in sites if not site.is_return_probe]  # there the instruction pointer is the caller's
    if not inside or len(inside) < len(sites) or arch is None or context.types.outside is None:
        where = "when the function returns" if sites else "without a probe that is there"
        hint = f'keep it from a uprobe or usdt probe of the same file: @v[tid] = uaddr("{name}");'
        context.untyped(f"uaddr() is not known {where}", call.span, hint)
        return None
    found = {context.types.outside().variable(site, name) for site in inside}
    places = [each for each in found if not isinstance(each, str)]
    if len(found) > 1:
        context.error(f"{name} is at another distance from each site", call.span, "write a clause for each of them")
        return None
    if not places:
        context.error(str(*found), call.spans[0], "uaddr() takes a global or static variable of the probe's file")
        return None
    ((distance, type),) = places
    here = string(b"ip" if "ip" in arch.registers else b"pc", call.span)
    start = typed.Call(UINT64, call.span, "reg", (here,))
    distant = typed.IntLit(UINT64, call.span, distance % (1 << 64))
    address = typed.Binary(UINT64, call.span, "+", start, distant)
    return typed.Cast(PointerType(target=type), call.span, address)


FUNCTIONS = (
    BuiltinFunction(
        "usdt_arg", "value", "usdt_arg(n)", (Parameter("constant", "the argument of usdt_arg()"),), None,
        "the same as argN", "print(usdt_arg(0));", "that of argN", place="probe",
        rule=lambda call: argument(call.context, f"arg{call.args[0]}", call.args[0], call.span),
    ),
    BuiltinFunction(
        "uaddr", "value", "uaddr(variable)", (Parameter("text", "the variable of uaddr()"),), None,
        "address of a global or static variable of the probe's file, with its type; of several that of its source file",
        'print(*uaddr("counter"));', "pointer", place="probe", rule=_variable,
    ),
    BuiltinFunction(
        "reg", "value", "reg(name)", (Parameter("text", "the register of reg()"),), UINT64,
        "what a register holds at the hit", '@[usym(reg("ip"))] = count();', place="probe", rule=_register,
        lower=_read_register,
    ),
)  # fmt: skip
