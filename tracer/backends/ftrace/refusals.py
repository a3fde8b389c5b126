"""What the kernel refused, said under the user's text: where it was about a value, under that, else under the attach
points.
"""

from __future__ import annotations

from tracer.backends.ftrace.fetchargs import Constant, Number, Text, ThreadName
from tracer.backends.ftrace.fetchargs import Source as ValueSource
from tracer.backends.ftrace.program import Event
from tracer.errors import NOWHERE, Diagnostic, ProgramError, Source, Span, TracerError
from tracer.interp.fetch import fetches
from tracer.lang.walk import attach_points


def at_clause(error: TracerError, source: Source, event: Event, branch: int = 0) -> ProgramError:
    """The same failure, with the first clause of an event's branch as its place. The exit status stays."""
    return _at(error, source, attach_points(event.branches[branch][0].clause, source))


def at_fetch(error: TracerError, source: Source, event: Event, branch: int, fetch: int | None) -> ProgramError:
    """The same failure, with what a fetch argument of the event is read for as its place; None if it is about none."""
    for run in event.branches[branch] if fetch is not None else ():
        for leaf, value in zip(fetches(run.clause), run.sources, strict=True):
            if fetch in _fetched(value) and leaf.span != NOWHERE:
                return _at(error, source, leaf.span)
    return at_clause(error, source, event, branch)


def _at(error: TracerError, source: Source, span: Span) -> ProgramError:
    return ProgramError(source, [Diagnostic(error.message, span, error.hint)], error.detail, error.exit_code)


def _fetched(value: ValueSource | Constant) -> tuple[int | None, ...]:
    match value:
        case Number(fetch, guard):
            return fetch, guard
        case Text(fetch, base):
            return fetch, *_fetched(base)
        case ThreadName(fetch):
            return (fetch,)
    return ()
