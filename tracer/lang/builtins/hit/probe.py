"""Values of the probe that was hit: its names, its arguments, the return value."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tracer.errors import Span
from tracer.kinds.arch import native
from tracer.kinds.registry import KINDS, awaits_files
from tracer.lang import typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, Value
from tracer.lang.fold import string
from tracer.lang.types import BOOL, INT64, UINT64, FloatType, IntType, PointerType, StringType, Type, operations
from tracer.lang.types.combine import NOTED

if TYPE_CHECKING:
    from tracer.lang.scope.context import Context

FEW = 16
"""Functions up to which debug information is asked what they return."""

RETURN_HINT = "keep it from a uprobe on the same function: @a[tid] = arg0; the value that is returned is retval"


_LATER_PROBE, _LATER_FUNCTION = 191, 63
"""Bytes of the names for which there is room at least where files may come later."""


def _probe(context: Context) -> Type:
    names = [site.probe for site in context.unit.sites] or [point.kind for point in context.unit.points]
    longest = max(len(text.encode("utf-8", "surrogateescape")) for text in names)
    return StringType(max(longest, _LATER_PROBE if _awaits_files(context) else 0) + 1)


def _function(context: Context) -> Type:
    sites = context.unit.sites if context.unit.kind.at_hits else ()
    longest = max((len(site.function.encode()) for site in sites), default=_LATER_FUNCTION)
    return StringType(max(longest, _LATER_FUNCTION if _awaits_files(context) else 0) + 1)


def _awaits_files(context: Context) -> bool:
    unit = context.unit
    return unit.kind.at_hits and any(map(awaits_files, unit.points))


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
        others = (place for place, spec in enumerate(specs) if (spec.is_float, spec.size) != (True, real.size))
        other = next(others, None)
        if other is None:
            return FloatType(8 * real.size)
        message = f"{name} is a float{8 * real.size} at {sites[specs.index(real)].shown} ({real.text})"
        where = f"{sites[other].shown} ({specs[other].text})"
        context.error(f"{message}, but not at {where}", span, "write a clause for each of them")
        return None
    noted = all(KINDS[point.kind].has_notes for point in context.unit.points)
    if any(spec.signed for spec in specs) or (not context.unit.sites and noted and _awaits_files(context)):
        return INT64  # as most notes say
    return NOTED if sites and len(context.unit.reading("note")) == len(context.unit.sites) else UINT64


def _source_file(context: Context) -> Type:
    return StringType(max((len(os.fsencode(site.source_file)) for site in context.unit.places), default=63) + 1)


def _check_time(context: Context, name: str, span: Span) -> bool:
    """Refuses what is known of calls alone."""
    if context.unit.until is None:
        return True
    context.error(f"{name} is known of calls, not of spans", span, "duration is the time from the start to the end")
    return False


def _check_source(context: Context, name: str, span: Span) -> bool:
    """Refuses `line` and `file` where no site has any; warns where only some have."""
    places = context.unit.places
    if context.unit.sites and not places:
        context.error(f"{name} is not known in {context.unit.place}", span)
        return False
    if any(site.is_return_probe or site.is_at_return for site in places):
        context.error(f"{name} is not known when the function returns", span, "it is known where the function begins")
        return False
    unknown = [site for site in places if not site.source_file]
    if not unknown:
        return True
    reason = "no debug information says which line its code is of"
    if unknown == [*places]:
        hint = "compile it with -g, or install its debug symbols"
        context.error(f"{name} is not known at {unknown[0].shown}: {reason}", span, hint)
        return False
    where = f"{len(unknown)} of {len(places)} places"
    what = "0" if name == "line" else "empty"
    context.warn(f"{name} is {what} at {where}: of the first, {unknown[0].shown}, {reason}", span)
    return True


def _check_result(context: Context, name: str, span: Span) -> bool:
    """Refuses `retval` of functions that return nothing; warns where only some of the clause's do."""
    sites = {site.probe: site for site in context.unit.places}
    if context.types.outside is None or not context.final or len(sites) > FEW:
        return True
    outside = context.types.outside()
    reasons = [(shown, reason) for shown, site in sites.items() if (reason := outside.no_result(site))]
    if reasons and len(reasons) == len(sites):
        context.error(f"there is no retval of {reasons[0][0]}: {reasons[0][1]}", span)
        return False
    for shown, reason in reasons:
        context.warn(f"there is no retval of {shown}: {reason}", span, "what is shown of it means nothing")
    return True


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
    kinds = tuple(dict.fromkeys(site.probe.partition(":")[0] for site in ctx.clause.sites))
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
        "line", UINT64, "line of source text that the place is of", "@[file, line] = count();", "probe", ours=True,
        lower=_text, check=_check_source,
    ),
    Value(
        "file", _source_file, "source file that the place is of, as `list -v` shows it", "@[file] = count();", "probe",
        "string", ours=True, lower=_text, check=_check_source,
    ),
    Value(
        "retval", UINT64, "value that the function returns", "@ = hist(retval);", "return", node=typed.Retval,
        lower=lambda ctx, node: ctx.return_value(node.span), check=_check_result,
    ),
    Value(
        "duration", UINT64, "nanoseconds from the beginning of the call, less probe_time, or of the span, to its end",
        "@ = quantiles(duration);", "call", ours=True,
    ),
    Value(
        "self_time", UINT64, "nanoseconds of duration in which no other traced call was under way inside it",
        "@[func] = sum(self_time);", "call", ours=True, check=_check_time,
    ),
    Value(
        "probe_time", UINT64, "nanoseconds that the probes of calls took in the call, by a measurement before",
        "@[func] = sum(probe_time);", "call", ours=True, check=_check_time,
    ),
    Value(
        "depth", UINT64, "how many calls of the function the call is inside, in its thread, or how many spans; or 0",
        "@[depth] = count();", "call", ours=True,
    ),
)  # fmt: skip


def _after(call: Call) -> typed.Expr:
    (value,) = call.args
    return typed.Call(value.type, call.span, call.name, (value,))


def _register(call: Call) -> typed.Expr | None:
    (name,) = call.args
    if call.context.unit.reads("call"):
        what = "a clause of calls" if call.context.unit.until is None else "a span"
        call.error(f"reg() has no one moment in {what}", call.span, "read it in a uprobe or uretprobe")
        return None
    arch = native()
    registers = () if arch is None else (*arch.registers, *arch.state)
    other = {"pc": "ip", "ip": "pc"}.get(name, f"x{name[1:]}" if name.startswith("r") else name)
    register = name if name in registers else other
    if register not in registers:
        every = registers if "pc" in registers else (*registers, "pc")
        call.error(f"there is no register '{name}' here", call.spans[0], f"there are {', '.join(every)}")
        return None
    return typed.Call(UINT64, call.span, call.name, (string(register.encode(), call.spans[0]),))


def _read_register(ctx: Lowering[V], call: typed.Call) -> V:
    (name,) = call.args
    assert isinstance(name, typed.StrLit)
    return ctx.register(name.value.decode(), call.span)


def _variable(call: Call) -> typed.Expr | None:
    """The load bias comes with the hit: the probe's own address is what the instruction pointer holds less it."""
    context, (name,) = call.context, call.args
    sites, arch = context.unit.places, native()
    inside = [site for site in sites if not site.is_return_probe]  # there the instruction pointer is the caller's
    outside = None if context.unit.reads("call") else context.types.outside  # which is evaluated at the return
    if not inside or len(inside) < len(sites) or arch is None or outside is None:
        where = "when the function returns" if sites else "without a probe that is there"
        hint = f'keep it from a uprobe or usdt probe of the same file: @v[tid] = uaddr("{name}");'
        context.untyped(f"uaddr() is not known {where}", call.span, hint)
        return None
    variables = {outside().variable(site, name) for site in inside}
    places = [variable for variable in variables if not isinstance(variable, str)]
    if len(variables) > 1:
        context.error(f"{name} is at another distance from each site", call.span, "write a clause for each of them")
        return None
    if not places:
        context.error(str(*variables), call.spans[0], "uaddr() takes a global or static variable of the probe's file")
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
        "after", "value", "after(value)", (Parameter("value", "the argument of after()"),), None,
        "the value with memory as it is when the call ends, not as it was when it began",
        "@[after(str(arg1))] = count();", "that of the value", place="call", ours=True, rule=_after,
    ),
    BuiltinFunction(
        "uaddr", "value", "uaddr(variable)", (Parameter("text", "the variable of uaddr()"),), None,
        "address of a global or static variable of the probe's file, with its type; of several that of its source file",
        'print(*uaddr("counter"));', "pointer", place="probe", rule=_variable,
    ),
    BuiltinFunction(
        "reg", "value", "reg(name)", (Parameter("text", "the register of reg()"),), UINT64,
        "what a register holds at the hit", '@[usym(reg("ip"))] = count();', place="registers", rule=_register,
        lower=_read_register,
    ),
)  # fmt: skip
