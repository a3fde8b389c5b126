"""Events of the kernel: `tracepoint:sched:sched_process_exec`, `tracepoint:syscalls:sys_enter_*`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracer.errors import Span
from tracer.kinds.model import AttachPoint, ClauseKind, Machine, Part, ProbeKind, malformed

if TYPE_CHECKING:
    from tracer.kinds.site import ArgSpec, Site

_FORM = "tracepoint:SYSTEM:NAME"

_BOUND = re.compile(r"(.*?)(\w+)\s*((?:\[\w*\])?)")


def _build(text: str, parts: list[Part], span: Span) -> AttachPoint:
    if len(parts) != 3 or not all(part.text for part in parts[1:]):
        raise malformed(_FORM, span, "the tracepoint attach point takes a system and a name")
    return AttachPoint("tracepoint", text, span, None, parts[1].text, parts[2].text)


def _events(point: AttachPoint, machine: Machine) -> list[Site]:
    """Raises `NothingThere`, and `TracerError` where this user may not see the kernel's events."""
    from tracer.errors import NothingThere, printable

    system, name = point.provider or "", point.name or ""
    events = machine.events(system, name)
    if not events:
        raise NothingThere(f"this kernel has no tracepoint {printable(f'{system}:{name}')}", machine.near(system, name))
    return [_site(*event, machine.layout(*event)) for event in events]


def _site(system: str, name: str, layout: str) -> Site:
    from tracer.kinds.kernel_event import KernelEvent  # loaded where there is one

    told = layout.partition("\nprint fmt")[0].split("\n")
    lines = [dict(part.strip().split(":", 1) for part in line.split(";") if ":" in part) for line in told]
    (number,) = (int(line["ID"]) for line in lines if "ID" in line)
    fields = [_field(line) for line in lines if "field" in line and "offset" in line]
    event_fields = sorted((spec for spec in fields if not spec.text.startswith("common_")), key=_offset)
    event_fields += _of_thread() if system == "raw_syscalls" else []
    return KernelEvent("tracepoint", f"tracepoint:{system}:{name}", "", tuple(event_fields), 0, system, name, number)


def _field(line: dict[str, str]) -> ArgSpec:
    """`field:const char * filename; offset:24; size:8; signed:0;`. A declaration holds no semicolon."""
    from tracer.kinds.kernel_event import Field
    from tracer.kinds.site import ArgSpec

    words = _BOUND.fullmatch(line["field"].strip())
    before, name, bounds = words.groups() if words is not None else ("", line["field"], "")
    declared, size = f"{before.strip()}{bounds}", int(line["size"])
    offset, located = int(line["offset"]), declared.startswith(("__data_loc ", "__rel_loc "))
    number = size in (1, 2, 4, 8) and not located and "[" not in declared
    signed = number and line["signed"] == "1"
    field = Field(name, declared, offset, size, number, signed, located, declared.startswith("__rel_loc "))
    return ArgSpec(name, size if number else 8, signed, field)


def _of_thread() -> list[ArgSpec]:
    """`abi`, by perf's numbers: 1 in a program of 32 bits, whose system calls have other numbers, and 2 elsewhere."""
    from tracer.kinds.arch import X86_64, native
    from tracer.kinds.kernel_event import Field
    from tracer.kinds.site import ArgSpec

    if native() is not X86_64:
        return []
    return [ArgSpec("abi", 8, False, Field("abi", "unsigned long", 0, 8, True, beside=True))]


def _offset(spec: ArgSpec) -> int:
    from tracer.kinds.kernel_event import Field

    assert isinstance(spec.operand, Field)
    return spec.operand.offset


TRACEPOINT = ProbeKind(
    "tracepoint", ("tracepoint", "t"), _FORM, _build, ClauseKind("tracepoint", at_hits=True),
    "a tracepoint", frozenset(("fields", "stack", "signal")), machine=_events, places=("tracepoint",),
    told=("events", "probe"),
)  # fmt: skip
