"""Stacks and symbols of the hit process."""

from __future__ import annotations

from tracer.lang import typed
from tracer.lang.builtins.model import Argument, Call, Function, Value
from tracer.lang.types import StackType, SymbolType

STACK_FRAMES_MOST = 127
"""The kernel's default `kernel.perf_event_max_stack`."""

STACK_MODES = ("bpftrace", "perf", "raw", "build_id")


def _ustack(call: Call) -> typed.Expr | None:
    mode, *rest = call.args or ("",)
    if mode not in ("", "bpftrace"):
        what = f"the stack mode {mode} is not supported: stacks have one format, bpftrace's own"
        call.error(what, call.spans[0], "leave it out")
        return None
    frames = rest[0] if rest else call.context.config.stack_frames
    if not 1 <= frames <= STACK_FRAMES_MOST:
        what = f"the number of frames of ustack() must be from 1 to {STACK_FRAMES_MOST}, not {frames}"
        call.error(what, call.spans[-1])
        return None
    return typed.UStack(StackType(frames), call.span)


VALUES = (
    Value(
        "ustack", lambda context: StackType(context.config.stack_frames),
        "user stack at the probe, innermost frame first", "@[ustack] = count();", "probe", "ustack", typed.UStack,
    ),
)  # fmt: skip

FUNCTIONS = (
    Function(
        "ustack", "value", "ustack([frames])",
        (Argument("word", "a mode", STACK_MODES), Argument("constant", "the number of frames of ustack()")), None,
        "user stack, so many frames at most", "@[ustack(5)] = count();", "ustack",
        optional=2, place="probe", rule=_ustack,
    ),
    Function(
        "usym", "value", "usym(addr)", (Argument("unsigned", "the address of usym()"),), SymbolType(),
        "symbol that holds an address", "@[usym(arg0)] = count();",
        place="probe", rule=lambda call: typed.USym(SymbolType(), call.span, *call.args),
    ),
)  # fmt: skip
