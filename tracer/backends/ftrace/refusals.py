"""What the kernel refused, said under the attach points of the user's text."""

from __future__ import annotations

from tracer.backends.ftrace.program import Event
from tracer.errors import Diagnostic, ProgramError, Source, Span, TracerError
from tracer.lang.typed import Clause


def at_clause(error: TracerError, source: Source, event: Event, branch: int = 0) -> ProgramError:
    """The same failure, with the first clause of an event's branch as its place. The exit status stays."""
    clause = event.branches[branch][0].clause
    diagnostic = Diagnostic(error.message, attach_points(clause, source), error.hint)
    return ProgramError(source, [diagnostic], error.detail, error.exit_code)


def attach_points(clause: Clause, source: Source) -> Span:
    """Where the attach points of a clause stand: its text up to the predicate or the body."""
    first = clause.predicate or next(iter(clause.body), None)
    end = first.span.start if first is not None else clause.span.end
    text = source.text[clause.span.start : end].rstrip("/{(! \t\n")
    return Span(clause.span.start, clause.span.start + len(text)) if text else clause.span
