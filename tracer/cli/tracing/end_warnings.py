"""The lines at the end of a trace about what makes its answer incomplete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.render.loss import loss_messages

if TYPE_CHECKING:
    from tracer.plan.model import Plan
    from tracer.tracing import Outcome


def closing_lines(plan: Plan, outcome: Outcome, backend: str | None = None) -> Iterator[str]:
    """The lines, without an end of line; none where all is well."""
    yield from loss_messages(outcome.loss, plan.program)
    if backend == "ftrace" and outcome.loss.events and _says_exit(plan):
        # Its exit() is found in the events; that of bcc is a flag in the kernel, which nothing can lose.
        yield "exit() may be among what was lost: what came after it may have been counted"


def _says_exit(plan: Plan) -> bool:
    """Whether a probe, not an interval, can end the trace."""
    from tracer.lang.typed import Exit
    from tracer.lang.walk import walk_clause

    return any(isinstance(node, Exit) for probe in plan.probes for node in walk_clause(probe.clause))
