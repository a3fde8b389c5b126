"""A clause that the compiler or the verifier does not take: which one, and what can be done about it."""

from __future__ import annotations

import re

from tracer.errors import Diagnostic, ProgramError, Span, TracerError
from tracer.lang.typed import Clause
from tracer.plan.model import Plan

_REMEDY = "shorten it, give its strings sizes as in str(arg0, 64), spread it over several clauses, or --backend ftrace"

_TOO_MUCH = {
    "BPF stack limit": "the compiler needs more than the 512 bytes of BPF's stack for it",
    "program is too large": "the kernel's verifier gives up on its loops and strings after a million steps",
    "jumps is too complex": "its loops and strings branch more often than the kernel's verifier follows",
}


class Refused(TracerError):
    """A function of the C program was refused; `detail` is what the compiler or the verifier says."""

    def __init__(self, function: str, message: str, hint: str, detail: str) -> None:
        super().__init__(message, hint, detail)
        self.function = function


def function_in(words: str) -> str | None:
    """The function that LLVM names in an error, if it does."""
    found = re.search(r"in function (probe_\d+)\b", words)
    return found[1] if found else None


def under_the_clause(error: Refused, plan: Plan) -> TracerError:
    """The error at the place of the clause where that is too large; as it is where the fault is not the program's."""
    reason = next((reason for mark, reason in _TOO_MUCH.items() if mark in (error.detail or "")), None)
    clause = _clause(plan, error.function)
    if reason is None or clause is None:
        return error
    start = clause.span.start
    name = clause.names[0] if clause.names else ""
    span = Span(start, start + len(name)) if plan.program.source.text.startswith(name, start) else clause.span
    diagnostic = Diagnostic(f"this clause is too much for bcc: {reason}", span, _REMEDY)
    return ProgramError(plan.program.source, [diagnostic], error.detail, exit_code=1)


def _clause(plan: Plan, function: str) -> Clause | None:
    for probe in plan.probes:
        if any(f"probe_{variant.id}" == function for variant in probe.variants):
            return probe.clause
    return None
