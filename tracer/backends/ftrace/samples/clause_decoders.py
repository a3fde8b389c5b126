"""The decoders of a session's events, with the clauses that run on what they decode."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from tracer.backends.ftrace.program import ProbeEvent
from tracer.backends.ftrace.samples.decoder import Decoder, Named, Near, build
from tracer.backends.ftrace.samples.shape import Shape
from tracer.kernel import perf
from tracer.kernel.uprobe_events.events import EventFormat
from tracer.lang.typed import Program
from tracer.steps.python.compile import compile_clause, made_later
from tracer.steps.python.runtime import Compiled, Runtime

if TYPE_CHECKING:
    from tracer.backends import Unwinder

_COMPILED_AT_ONCE = 64
"""Branches of an event: of more many may never be hit, and each takes 0.1 ms."""


class ClauseDecoders:
    """Makes them for one `program`. `gone` are the attach points that have ended, where they end one by one."""

    child_pid = 0
    unwinder: Unwinder | None = None
    named: Named | None = None
    near: Near | None = None

    def __init__(self, program: Program, runtime: Runtime, gone: Collection[int] | None) -> None:
        self._program = program
        self.runtime = runtime
        self._gone = gone
        self._time_offset = perf.boot_offset_ns()

    def decoder(self, event: ProbeEvent, format: EventFormat, shape: Shape) -> Decoder:
        """That of one event."""
        branches = [
            [(self._unless_gone(event, branch, place), run.sources) for place, run in enumerate(runs)]
            for branch, runs in enumerate(event.branches)
        ]
        return build(
            format, event.places[0].fetches, branches, shape, self.runtime,
            time_offset=self._time_offset, child_pid=self.child_pid, unwinder=self.unwinder, named=self.named,
            near=self.near, others=event.places[0].site.others,
        )  # fmt: skip

    def _unless_gone(self, event: ProbeEvent, branch: int, number: int) -> Compiled:
        """A clause of an event; where others share the event it may end before them (`detach_point`)."""
        run = event.branches[branch][number]
        make = partial(compile_clause, self._program, run.clause, run.steps, run.variant, self.runtime)
        clause = make() if len(event.branches) <= _COMPILED_AT_ONCE else made_later(make)
        gone = self._gone
        if gone is None or len(event.points) == 1:
            return clause
        point = next((place.points[number] for place in event.places if place.branch == branch), -1)
        return lambda hit: None if point in gone else clause(hit)
