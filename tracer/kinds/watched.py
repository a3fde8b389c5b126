"""What `watchpoint:0x404080:4:w` and `watchpoint:/bin/app:counter:w` mean: attach points, and their sites.

The numbers are those of `<linux/hw_breakpoint.h>`, the modes bpftrace's.
"""

from __future__ import annotations

import re

from tracer.dataclass import dataclass
from tracer.errors import Diagnostic, Fault, Span, TracerError, printable
from tracer.kinds.model import AttachPoint, InFile, Memory, Part, ProbeKind, count_of, malformed
from tracer.kinds.site import Site

LENGTHS = 1, 2, 4, 8
"""Bytes that a debug register can watch."""

EXECUTED = 4
_MODES = {"w": 2, "rw": 3, "x": EXECUTED}
_ARGUMENT = re.compile(r".+\+arg\d+")
_LAST_ADDRESS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Watched(Site):
    """`length` bytes of memory that the processor watches in each traced process, for `access` of that sort: at
    `address`, or where `variable` is loaded.
    """

    address: int
    length: int
    access: int
    variable: InFile | None = None

    in_memory = True


def build(kind: ProbeKind, text: str, parts: list[Part], span: Span) -> AttachPoint:
    """The attach point. Raises `Fault`."""
    if (argument := next((part for part in parts[1:] if _ARGUMENT.fullmatch(part.text)), None)) is not None:
        function, _, number = argument.text.rpartition("+arg")
        file = printable(parts[1].text) if argument is not parts[1] else "FILE"
        raise Fault(Diagnostic(
            "where an argument leads is known only at the call, and its thread would have to wait there for the watch"
            " (bpftrace 0.27 has it no more either)",
            argument.span,
            f'uprobe:{file}:{printable(function)} {{ printf("%p", arg{number}) }} shows the addresses;'
            " then watchpoint:ADDRESS:LENGTH:MODE",
        ))  # fmt: skip
    if len(parts) != 4 or not all(part.text for part in parts):
        raise malformed(kind.form, span, "the watchpoint attach point takes an address and a length, or a variable")
    _, where, what, mode = parts
    access = _mode(mode)
    address = count_of(where.text) if where.bare == where.text else None
    if address is None:
        return AttachPoint(kind.name, text, span, where.text, name=what.text, access=access)
    length = count_of(what.text)
    if length not in LENGTHS:
        reason = f"the processor watches 1, 2, 4 or 8 bytes, and not {printable(what.text)}"
        raise Fault(Diagnostic(reason, what.span, f"write watchpoint:{where.text}:8:{mode.text}"))
    if address > _LAST_ADDRESS:
        raise Fault(Diagnostic("this is no address: it has more than 64 bits", where.span))
    unaligned = misplaced(address, length, access)
    if unaligned:
        raise Fault(Diagnostic(unaligned, where.span, f"{address - address % length:#x} is a multiple"))
    return AttachPoint(kind.name, text, span, address=address, length=length, access=access)


def misplaced(address: int, length: int, access: int) -> str:
    """Why the processor cannot watch there; "" where it can. An instruction is watched by its first byte."""
    if access == EXECUTED or address % length == 0:
        return ""
    return f"the processor watches {length} bytes at a multiple of {length}, which {address:#x} is not"


def _mode(mode: Part) -> int:
    for word, access in _MODES.items():
        if sorted(mode.text) == sorted(word):
            return access
    raise Fault(Diagnostic(f"'{printable(mode.text)}' is not a mode of a watchpoint", mode.span,
                           "modes are w (written), rw (read or written) and x (executed)"))  # fmt: skip


def site(point: AttachPoint, memory: Memory) -> Site:
    """The site of an attach point. Raises `TracerError`."""
    mode = next(word for word, access in _MODES.items() if access == point.access)
    if point.path is None:
        assert point.address is not None
        probe = f"watchpoint:{point.address:#x}:{point.length}:{mode}"
        return Watched(point.kind, probe, "", (), 0, point.address, point.length, point.access)
    assert point.name is not None
    variable, length = memory.variable(point.path, point.name)
    if point.access == EXECUTED:
        message = f"{printable(point.name)} is a variable, which is not executed"
        raise TracerError(message, "uprobe:FILE:FUNCTION sees calls")
    unaligned = misplaced(variable.address, length, point.access)
    if unaligned:
        raise TracerError(f"{printable(point.name)}: {unaligned}", "watch a part of it: watchpoint:ADDRESS:1:w")
    probe = f"watchpoint:{variable.shown}:{point.name}:{mode}"
    return Watched(point.kind, probe, "", (), 0, variable.address, length, point.access, variable)
