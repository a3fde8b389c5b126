"""Stacks and symbols of the hit process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.errors import Span
from tracer.kinds.registry import kind_of, named
from tracer.lang import features, typed
from tracer.lang.constructs import BuiltinFunction, Call, Lowering, Parameter, V, Value
from tracer.lang.fold import convert
from tracer.lang.types import STACK_FRAMES_MOST, STACK_MODES, UINT64, StackType, SymbolType, operations

if TYPE_CHECKING:
    from tracer.lang.scope.context import Context

_DEEP = 256
"""The verifier of Linux 6.18 takes 400,000 of its million steps for a walk of so many frames."""


def noted(context: Context, name: str, span: Span) -> None:
    """Warns about a stack that will be empty or incomplete; refuses one that cannot be walked."""
    if name == "dw_ustack":
        context.stable(name, name, span)
    if min(context.words) < 8 and context.config.stack_unwind == "fp":
        narrow = next(site for site in context.unit.places if site.word < 8)
        what = f"frame pointers do not give the {name} of a 32-bit program: the kernel passes over a caller"
        context.error(f"{what} ({narrow.path})", span, "leave out stack_unwind = fp")
    if not (context.unit.reads("probe") or context.unit.reads("stack") or context.unit.clause.uncalled):
        what = f"{name} is empty in {context.unit.place}, which runs in tracer itself"
        context.warn(what, span, f"a {named('probe')} has the stack of the program that hits it")


def _ustack(call: Call) -> typed.Expr | None:
    noted(call.context, call.name, call.span)
    frames = frames_of(call)
    if frames is None:
        return None
    return typed.UStack(StackType(frames, (call.args or ("",))[0] or call.context.config.stack_mode), call.span)


def frames_of(call: Call) -> int | None:
    """The number of frames that a call asks for; None where that is refused."""
    _, *rest = call.args or ("",)
    frames = rest[0] if rest else call.context.config.stack_frames
    if not 1 <= frames <= STACK_FRAMES_MOST:
        what = f"the number of frames of {call.name}() must be from 1 to {STACK_FRAMES_MOST}, not {frames}"
        call.error(what, call.spans[-1])
        return None
    return int(frames)


def _walked(ctx: Lowering[V], node: typed.UStack) -> V:
    assert isinstance(node.type, StackType)
    if node.type.frames > _DEEP:
        ctx.ask(features.DEEP_STACK, f"a stack of {node.type.frames} frames", node.span)
    if any("stack" in kind_of(site).reads for site in ctx.clause.sites[:1]):
        ctx.ask(features.STOPPED_STACK, "ustack", node.span)
    if node.type.interpreted:
        ctx.ask(features.INTERPRETED, f"ustack({node.type.mode})", node.span)
    return ctx.stack(node.type, node.span)


def _symbol(ctx: Lowering[V], node: typed.USym) -> V:
    address = ctx.value(node.address)
    process, moment = ctx.built_in("pid", node.span), ctx.built_in("moment", node.span)
    return ctx.op(operations.SYMBOL, node.type, process, address, moment)


def _usym(call: Call) -> typed.Expr | None:
    (address,) = call.args
    if not call.context.is_address(address):
        return None
    return typed.USym(SymbolType(), call.span, convert(address, UINT64))


VALUES = tuple(
    Value(
        name, lambda context: StackType(context.config.stack_frames, context.config.stack_mode),
        help, f"@[{name}] = count();", shown="ustack", node=typed.UStack, lower=_walked,
        needs=features.USER_STACK,
    )
    for name, help in (
        ("ustack", "user stack at the probe, innermost frame first"),
        ("dw_ustack", "the same as ustack: bpftrace's name for a stack walked by unwind tables"),
    )
)  # fmt: skip

FUNCTIONS = (
    *(
        BuiltinFunction(
            name, "value", f"{name}([mode, frames])",
            (Parameter("word", "a mode", STACK_MODES), Parameter("constant", f"the number of frames of {name}()")),
            None,
            "user stack of at most that many frames; its mode is " + ", ".join(STACK_MODES), f"@[{name}(5)] = count();",
            "ustack", optional=2, rule=_ustack, lower=_walked, node=typed.UStack, needs=features.USER_STACK,
        )
        for name in ("ustack", "dw_ustack")
    ),
    BuiltinFunction(
        "usym", "value", "usym(addr)", (Parameter("integer", "the address of usym()"),), SymbolType(),
        "symbol that holds an address", "@[usym(arg0)] = count();",
        rule=_usym, lower=_symbol, node=typed.USym, needs=features.SYMBOL,
    ),
)  # fmt: skip
