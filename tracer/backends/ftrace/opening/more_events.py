"""More sites for a trace under way: events of their own, whose samples come into the rings that are there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from tracer.backends.ftrace.attach.model import NeedsSamples
from tracer.backends.ftrace.opening.open_events import opening
from tracer.backends.ftrace.program import FtraceProgram, ProbeEvent, tallies
from tracer.backends.ftrace.read.copies import FIRST
from tracer.backends.ftrace.read.descriptors import Opening
from tracer.backends.ftrace.refusals import check_panic
from tracer.backends.precheck import unprobable
from tracer.dataclass import replace
from tracer.errors import TracerError

if TYPE_CHECKING:
    from tracer.backends.ftrace.read.attachment import Attachment
    from tracer.kernel.uprobe_events.definitions import Definitions
    from tracer.plan.model import Plan

_OTHER_SAMPLES = "the kernel cannot count or sample it as it does the others"


def compiled(plan: Plan) -> FtraceProgram:
    """The program of such sites. Raises `ProgramError`."""
    from tracer.backends.ftrace.compile import compile_plan
    from tracer.kinds.arch import native

    arch = native()
    return compile_plan(plan, f"%{arch.returns if arch is not None else 'ax'}")


def _wants_cpu(program: FtraceProgram) -> bool:
    sources = (source for event in program.events for runs in event.branches for run in runs for source in run.sources)
    return any(getattr(source, "name", "") == "cpu" for source in sources)


class MoreEvents:
    """The events of such sites, defined under names that no others of the session have."""

    _numbers = count()

    def __init__(self, program: FtraceProgram, definitions: Definitions, pids: Sequence[int]) -> None:
        """Defines them; `pids` are the traced processes, () for all. Raises `TracerError`, and leaves nothing defined
        then.
        """
        program = program.sampled("its sites came while the trace ran")
        check_panic(program.events, program.plan.program.source)
        self.left_out = unprobable(program.plan, definitions.watcher, lambda: False)
        definitions.watcher.mind(program.plan.places, pids)
        self.program = program = program.without(self.left_out)
        events = [*program.events]
        if program.plan.has_return_probes:
            events += tallies(program, self.left_out)
        if not definitions.takes_several():
            events = [part for event in events for part in event.split()]
        prefix = f"m{next(self._numbers)}_"
        self.events: list[ProbeEvent] = [replace(event, name=prefix + event.name) for event in events]
        self._definitions = definitions
        definitions.define_more([event for event in self.events if event.is_defined])

    def open(self, attachment: Attachment, running: FtraceProgram) -> int:
        """Opens them beside the others, disabled; returns the number of the first. Raises `TracerError`, and nothing is
        defined any more then.
        """
        try:
            return self._open(attachment, running)
        except BaseException:
            self._definitions.drop(self.events)
            raise
        finally:
            self._definitions.in_use()

    def _open(self, attachment: Attachment, running: FtraceProgram) -> int:
        program = self.program
        stacks = program.frames, program.unwound_registers
        if program.frames and stacks != (running.frames, running.unwound_registers):
            raise TracerError("its samples would have other stacks")
        if _wants_cpu(program) and not attachment.shape.cpu:
            raise TracerError(_OTHER_SAMPLES)
        config = program.plan.program.config
        copied = (config.stack_copy or FIRST) & -8 if program.unwound_registers else 0
        try:
            return attachment.add(self._openings(copied))
        except NeedsSamples:
            self.events = [event.uncounted() for event in self.events if not event.is_tally]
        try:
            return attachment.add(self._openings(copied))
        except NeedsSamples:
            raise TracerError(_OTHER_SAMPLES) from None

    def _openings(self, copied: int) -> list[Opening]:
        """The openings of the events, with so many bytes of a stack."""
        return [opening(event, self._definitions, copied) for event in self.events]
