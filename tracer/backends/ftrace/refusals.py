"""Says under the user's text what the kernel refused, or would have: under a value where it was about one, else under
the attach points.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tracer.backends.ftrace.fetchargs import THREAD_NAME, Constant, Number, Source as ValueSource, Text, ThreadName
from tracer.backends.ftrace.program import ProbeEvent
from tracer.errors import NOWHERE, Diagnostic, ProgramError, Source, Span, TracerError
from tracer.kernel.uprobe_events.events import Undefinable
from tracer.lang.walk import attach_points
from tracer.steps.walk import leaves

_PANIC_ON_WARN = "/proc/sys/kernel/panic_on_warn"


def at_place(error: Undefinable, source: Source) -> ProgramError:
    """The error for what the kernel, or nobody, could define, under what it is for."""
    assert isinstance(error.event, ProbeEvent)
    return at_fetch(error, source, error.event, error.place.branch, error.fetch)


def check_panic(events: Sequence[ProbeEvent], source: Source) -> None:
    """Refuses strings if a long one could stop the machine (see `fetchargs`)."""
    try:
        panics = Path(_PANIC_ON_WARN).read_text().strip() == "1"
    except OSError:
        return
    for event in events if panics else ():
        for place in event.places:
            for number, fetch in enumerate(place.fetches):
                if not fetch.is_string or fetch == THREAD_NAME:
                    continue
                error = TracerError(
                    "this machine panics at a kernel warning, and the kernel warns of strings longer than a page",
                    "--backend bcc reads it without; or: sysctl kernel.panic_on_warn=0",
                )
                raise at_fetch(error, source, event, place.branch, number)


def at_clause(error: TracerError, source: Source, event: ProbeEvent, branch: int = 0) -> ProgramError:
    """The failure with the first clause of an event's branch as its place. The exit status stays."""
    return _placed(error, source, attach_points(event.branches[branch][0].clause, source))


def at_fetch(error: TracerError, source: Source, event: ProbeEvent, branch: int, fetch: int | None) -> ProgramError:
    """The failure with what a fetch argument of the event is read for as its place; None if it is about none."""
    for run in event.branches[branch] if fetch is not None else ():
        for leaf, value in zip(leaves(run.steps), run.sources, strict=True):
            if fetch in _fetched(value) and leaf.span != NOWHERE:
                return _placed(error, source, leaf.span)
    return at_clause(error, source, event, branch)


def _placed(error: TracerError, source: Source, span: Span) -> ProgramError:
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
