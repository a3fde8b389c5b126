"""A map whose key is too long for the kernel: what its parts may have, so that it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.backends.bcc.host.refused import LONGEST_OLD_KEY
from tracer.backends.bcc.maps.element_bytes import SHORT_TEXT, KeyLayout
from tracer.dataclass import replace
from tracer.errors import Diagnostic, ProgramError
from tracer.lang.types import STACK_FRAMES_MOST, StackType, StringType, TupleType, Type

if TYPE_CHECKING:
    from tracer.lang.typed import MapDecl
    from tracer.plan.model import Plan

_REASON = "the kernel's BPF maps take keys of 512 bytes at most (Linux 5.11 takes longer ones)"


def long_key(map: MapDecl, layout: KeyLayout, plan: Plan) -> ProgramError:
    """The error for it."""
    message = f"the key of {map.name} is not available with bcc: {_REASON}"
    return ProgramError(plan.program.source, [Diagnostic(message, map.span, _shorter(layout))], exit_code=1)


def _shorter(layout: KeyLayout) -> str:
    ways, parts = [], layout.parts
    shorter = tuple(_cut(part, STACK_FRAMES_MOST) for part in parts)
    if shorter != parts:
        ways.append(f"give its strings sizes, as in str(arg0, {SHORT_TEXT})")
    for frames in range(STACK_FRAMES_MOST, 0, -1):
        fitting = tuple(_cut(part, frames) for part in parts)
        if KeyLayout.of(fitting, head=layout.head, marked=layout.marked).size <= LONGEST_OLD_KEY:
            if fitting != shorter:
                ways.append(f"take {frames} frames of its stacks at most, as in ustack({frames})")
            break
    return ", ".join((*(ways or ["leave a part of it out"]), "or --backend ftrace"))


def _cut(kind: Type, frames: int) -> Type:
    """The type with short strings, and with stacks of so many frames at most."""
    match kind:
        case StringType():
            return replace(kind, size=min(kind.size, SHORT_TEXT))
        case StackType():
            return replace(kind, frames=min(kind.frames, frames))
        case TupleType():
            return replace(kind, items=tuple(_cut(item, frames) for item in kind.items))
        case _:
            return kind
