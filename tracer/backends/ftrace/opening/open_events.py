"""The events with which a session begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.ftrace.attach.model import CannotOpen, NeedsSamples
from tracer.backends.ftrace.program import FtraceProgram, ProbeEvent
from tracer.backends.ftrace.read.attachment import Attachment
from tracer.backends.ftrace.read.copies import FIRST
from tracer.backends.ftrace.read.descriptors import Opening
from tracer.backends.ftrace.refusals import at_clause
from tracer.errors import ProgramError, Source, TracerError
from tracer.kernel.trials.instructions import NOT_PROBED, may_go_without
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kernel.uprobe_events.events import ProbePlace
from tracer.kernel.uprobe_events.trials import Trials
from tracer.kinds.site import FileSite, Spot, Target

if TYPE_CHECKING:
    from tracer.backends.ftrace.read.long_strings import Beside
    from tracer.kinds.sampled import Sampled
    from tracer.kinds.watched import Watched


def open_events(
    definitions: Definitions, events: list[ProbeEvent], program: FtraceProgram, target: Target, stop: Callable[[], bool]
) -> tuple[Attachment, list[ProbeEvent], dict[Spot, FileSite]]:
    """Opens defined events; returns them as they are read, with the sites that a pattern goes without since the kernel
    does not probe them.

    Raises `TracerError`, under the user's text where it is about an event, and `Stopped` once `stop` says so.
    """
    source = program.plan.program.source
    copied = (program.plan.program.config.stack_copy or FIRST) & -8 if program.unwound_registers else 0
    left_out: dict[Spot, FileSite] = {}
    _check_placed(events, target, source)
    trials: Trials | None = None
    beside: list[Beside] | None = None
    while True:
        if beside is None:
            beside = _defined_beside(definitions, events, target.pids)
        openings = [opening(event, definitions, copied) for event in events]
        openings += [Opening(definitions.format(hidden).id, hidden.filter, False, early=True) for hidden in beside]
        try:
            attachment = Attachment(openings, program, target, definitions.watcher, beside)
            if all(attachment.descriptors.filtered[len(events) :]):
                return attachment, events, left_out
            attachment.close()  # each hit would become a sample
            beside = []
            continue
        except NeedsSamples:
            events = [event.uncounted() for event in events if not event.is_tally]
            continue
        except CannotOpen as error:
            if error.number is None:
                raise
            if error.number >= len(events):
                beside = []
                continue
            at_fault = events[error.number]
            if at_fault.of_perf is not None:
                raise _not_opened(OSError(error.code, ""), at_fault, target, source) from None
            complaint = at_clause(error, source, at_fault)
            if error.code not in NOT_PROBED:
                raise complaint from None
        try:
            if trials is None:
                trials = Trials(definitions, stop)
                refused_of = [(event, trials.refused_by_kind(event)) for event in events if event.is_defined]
            else:
                refused_of = [(at_fault, trials.refused(at_fault))]
                if not refused_of[0][1]:
                    raise complaint
        except OSError as trouble:
            raise CannotOpen(trouble) from None
        refused = {place for _, places in refused_of for place in places}
        if not all(_may_lose(event, places) for event, places in refused_of):
            raise complaint
        left_out |= {place.site.spot: place.file for place in refused}
        for hidden in beside:
            definitions.without(hidden, hidden.places)
        beside = None
        kept = [definitions.without(event, refused) for event in events]
        events = [event for event in kept if event is not None]
        if not events:
            raise complaint


def _not_opened(error: OSError, event: ProbeEvent, target: Target, source: Source) -> ProgramError:
    """The error for an event that is no trace event."""
    assert event.of_perf is not None
    site, clause = event.of_perf[0], event.branches[0][0].clause
    if site.in_memory:
        from tracer.backends import watching

        watched = cast("Watched", site)
        return watching.refused(error, watched, watching.address_in(watched, target.pids[0]), clause, source)
    from tracer.backends import sampling

    return sampling.refused(error, cast("Sampled", site), clause, source)


def _check_placed(events: Sequence[ProbeEvent], target: Target, source: Source) -> None:
    """Raises `ProgramError` for what is in the memory of processes, where none is named or one has not loaded it."""
    for event in events:
        if event.of_perf is None or not event.of_perf[0].in_memory:
            continue
        from tracer.backends import watching

        site, clause = cast("Watched", event.of_perf[0]), event.branches[0][0].clause
        if not target.pids:
            raise watching.nobody(site, clause, source)
        for pid in target.pids:
            try:
                watching.address_in(site, pid)
            except TracerError as error:
                raise watching.unplaced(error, site, clause, source) from None


def opening(event: ProbeEvent, definitions: Definitions, copied: int) -> Opening:
    """How an event is opened, with so many `copied` bytes of the stack where it wants that; then it has registers too,
    which all samples with registers have in the same way.
    """
    wants_mode = any(fetch.beside for place in event.places for fetch in place.fetches)
    return Opening(
        definitions.format(event).id, event.filter.text if event.filter else None, bool(event.counts),
        copied if event.wants_stack or wants_mode else 0, early=event.ends,
        sampled=event.of_perf and event.of_perf[0], mode=wants_mode, about=bool(event.places[0].site.others),
        of_kernel=not event.is_defined and event.of_perf is None,
    )  # fmt: skip


def _defined_beside(definitions: Definitions, events: Sequence[ProbeEvent], pids: Sequence[int]) -> list[Beside]:
    if not any(event.texts(branch) for event in events for branch in range(len(event.branches))):
        return []
    from tracer.backends.ftrace.read.long_strings import define_beside  # few programs need it

    return define_beside(definitions, events, pids)


def _may_lose(event: ProbeEvent, refused: Iterable[ProbePlace]) -> bool:
    """Whether an event can go without these of its places."""
    return all(
        may_go_without(run.clause, place.site.spot) for place in refused for run in event.branches[place.branch]
    )
