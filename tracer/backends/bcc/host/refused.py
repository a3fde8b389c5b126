"""A clause that the compiler or the verifier does not take: which one, and what can be done about it."""

from __future__ import annotations

import errno
import re
import struct
from typing import TYPE_CHECKING

from tracer.errors import Diagnostic, ProgramError, Span, TracerError
from tracer.plan.states import Unsupported

if TYPE_CHECKING:
    from tracer.lang.typed import Clause
    from tracer.plan.model import Plan

_REMEDY = "shorten it, give its strings sizes as in str(arg0, 64), spread it over several clauses, or --backend ftrace"

_TOO_MUCH = {
    "BPF stack limit": "the compiler needs more than the 512 bytes of BPF's stack for it",
    "program is too large": "the kernel's verifier gives up on its loops and strings after a million steps",
    "frames is too deep": "the kernel follows seven loops over maps inside each other at most",
    "combined stack size": "its loops over maps need more than the 512 bytes of BPF's stack together",
    "jumps is too complex": "its loops and strings branch more often than the kernel's verifier follows",
}

_GIVES_UP = ("program is too large", "jumps is too complex")

NO_ATOMICS = Unsupported(
    "the kernel's BPF cannot add and read in one step, nor compare and swap (Linux 5.12)",
    "leave out min(), max(), ++ as a value; or --backend ftrace",
)
MOST_MAPS = 64
"""Maps of one program at most (MAX_USED_MAPS in include/linux/bpf.h, E2BIG)."""
TOO_MANY_MAPS = Unsupported(
    f"the clause uses more maps than a BPF program may ({MOST_MAPS})", "split the clause, or --backend ftrace"
)
LONGEST_OLD_KEY = 512
"""MAX_BPF_STACK, which was the limit of a hash's keys before Linux 5.11 (E2BIG)."""

_STX_ATOMIC_32, _STX_ATOMIC_64 = 0xC3, 0xDB
_PLAIN_ADD = 0
_LD_IMM64 = 0x18  # two slots long


class Refused(TracerError):
    """A function of the C program was refused; `detail` is what the compiler or the verifier says."""

    def __init__(self, function: str, message: str, hint: str, detail: str) -> None:
        super().__init__(message, hint, detail)
        self.function = function


def function_in(words: str) -> str | None:
    """The function that LLVM's error names, if any."""
    match = re.search(r"in function (probe_\d+)(?:_(?:each|round|quick)_\d+)?\b", words)
    return match[1] if match else None


def is_too_much(error: Refused) -> bool:
    """Whether the verifier gave up on what the program does, and found no fault in it."""
    return any(mark in (error.detail or "") for mark in _GIVES_UP)


def is_too_long(error: Refused) -> bool:
    """Whether the verifier went through a million steps and gave up: it will do so each time (E2BIG, bpf(2))."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.E2BIG and error.message != TOO_MANY_MAPS.reason


def under_the_clause(error: Refused, plan: Plan) -> TracerError:
    """The error at the place of the clause where that is too large; as it is where the fault is not the program's."""
    reason = next((reason for mark, reason in _TOO_MUCH.items() if mark in (error.detail or "")), None)
    clause = _clause(plan, error.function)
    if clause is None:
        return error
    if error.message == NO_ATOMICS.reason:
        return _refusal_of(clause, plan, f"this clause is not available with bcc: {error.message}", error.hint, None)
    if error.message == TOO_MANY_MAPS.reason:
        return _refusal_of(clause, plan, error.message, error.hint, error.detail)
    if reason is None:
        return error
    return _refusal_of(clause, plan, f"this clause is too much for bcc: {reason}", _REMEDY, error.detail)


def reads_back(code: bytes) -> bool:
    """Whether a program has an atomic instruction that does more than add (BPF instruction set, "Atomic")."""
    position = 0
    while position < len(code):
        opcode, _, _, operation = struct.unpack_from("=BBhi", code, position)
        if opcode in (_STX_ATOMIC_32, _STX_ATOMIC_64) and operation != _PLAIN_ADD:
            return True
        position += 16 if opcode == _LD_IMM64 else 8
    return False


def _refusal_of(clause: Clause, plan: Plan, message: str, hint: str | None, detail: str | None) -> ProgramError:
    start = clause.span.start
    name = clause.names[0] if clause.names else ""
    span = Span(start, start + len(name)) if plan.program.source.text.startswith(name, start) else clause.span
    return ProgramError(plan.program.source, [Diagnostic(message, span, hint)], detail, exit_code=1)


def _clause(plan: Plan, function: str) -> Clause | None:
    for probe in plan.probes:
        if any(f"probe_{variant.id}" == function for variant in probe.variants):
            return probe.clause
    return None
