"""A `call:` attach point and the functions that it means → sites: the entry of each, with the places where it ends.

A call ends at every `ret` of the function where all are found, and where it may be called again before it has returned:
an ordinary probe there sees calls at any depth. Else at a return probe (`safety.returns`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import TracerError
from tracer.kinds.arch import EM_X86_64
from tracer.kinds.site import FileSite
from tracer.resolve.safety.placement import function_start, offset_of_code
from tracer.resolve.safety.recursion import Recursion
from tracer.resolve.safety.returns import plan_return
from tracer.resolve.sites.leaving_out import leave_out

if TYPE_CHECKING:
    from tracer.resolve.binary import Binary
    from tracer.resolve.elf.symbol_table import Function

_REMEDY = "trace its beginning with uprobe, and its return with uretprobe"

_NEAR = re.compile(rb"(?=[\xeb\x70-\x7f\xe0-\xe3](.))", re.S)
_FAR = re.compile(rb"(?=(?:\xe9|\x0f[\x80-\x8f])(.{4}))", re.S)
"""The first bytes of near and far jumps, and the distance behind them."""

_FEW = 16
"""Functions of a pattern up to which the calls of each are followed, which takes some ms."""


def with_ends(
    binary: Binary, entries: Sequence[FileSite], functions: Sequence[Function], left_out: list[str],
    unsafe: list[tuple[str, str]],
) -> list[FileSite]:  # fmt: skip
    """The entries of functions as calls of them. Those whose ends cannot be seen are left out where there are others,
    and `left_out` gets a line about them; `unsafe` gets the functions whose return probes can do harm, with the reason.

    Raises `TracerError` where it is one.
    """
    if binary.elf.machine != EM_X86_64:
        raise binary.elf.error("calls can be paired on x86-64 alone", "trace the entry with uprobe")
    calls = Recursion(binary.code)

    def recurs(function: Function) -> bool:
        return calls.of(function, alone=len(functions) > _FEW) is not False

    sites: list[FileSite] = []
    refused: list[TracerError] = []
    for entry, function in zip(entries, functions, strict=True):
        try:
            function_start(binary.code, function)
            goroutine = binary.unwinding.go and "." in function.name
            if goroutine and (function.name.endswith(".abi0") or not binary.keeps_goroutine):
                raise binary.elf.error(f"{function.name} does not say which goroutine calls it", _REMEDY)
            if entry.address == function.address and _begins_again(binary, function):
                raise binary.elf.error(
                    f"{function.name} jumps to its own beginning, where a call of it and a round of a loop look alike",
                    _REMEDY,
                )
            plan = plan_return(binary.code, binary.unwinding, function, binary.unsafe_returns, recurs, binary.walked)
        except TracerError as error:
            refused.append(error)
            continue
        if plan.danger is not None:
            unsafe.append((function.name, plan.danger))
        what = f"the return of {function.name}"
        pairs = tuple([(plan.kind, address, offset_of_code(binary.code, address, what)) for address in plan.addresses])
        sites.append(replace(entry, kind="call", ends=pairs, goroutine=goroutine))
    leave_out(refused, len(functions), left_out, "be probed on return")
    return sites


def _begins_again(binary: Binary, function: Function) -> bool:
    """Whether a jump of the function leads to its first instruction."""
    around = binary.code.range_of(function)
    content = binary.elf.memory(around.start, around.end - around.start, "the function's code") or b""
    # Most have no bytes that could be one, and to decode takes long.
    jumps = (jump for pattern in (_NEAR, _FAR) for jump in pattern.finditer(content))
    if not any(jump.end(1) + int.from_bytes(jump[1], "little", signed=True) == 0 for jump in jumps):
        return False
    instructions = binary.code.instructions(around)
    return any(instruction.jumps and instruction.target == function.address for instruction in instructions)
