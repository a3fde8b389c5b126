"""Looks out beside a trace: for the cost of hits to the targets, lost breakpoints, the reason why nothing comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tracer.kinds.site import paths_of
from tracer.overhead.findings import Findings
from tracer.render.notices import Consumer, NotHit, Notice, Overhead
from tracer.silence.beside import Beside
from tracer.silence.silence import Silence

if TYPE_CHECKING:
    from tracer.backends.base import Session
    from tracer.errors import Diagnostic
    from tracer.kinds.site import Target
    from tracer.plan.model import Plan
    from tracer.results.events import Outcome
    from tracer.silence.new_programs import NewPrograms
    from tracer.tracing import Request
    from tracer.tracing.end_warnings import OlderFiles

_COPYING = ("node", "php")
"""How the names of programs begin that may copy their code."""


def refuse(plan: Plan, target: Target, running: bool, argv: Sequence[str] | None, follow: bool) -> None:
    """Raises `ProgramError` for a program that its probes could harm, or that would not meet them: of processes that
    run, of the command `argv`, or of all.
    """
    if any(os.path.basename(path).startswith(_COPYING) for path in paths_of(plan.places)):
        from tracer.silence.copied_code import refuse_copied_code

        refuse_copied_code(plan, argv, not follow and (running or argv is not None))
    if running:
        from tracer.silence.rewritten import refuse_rewritten

        target.look_again()  # to compile takes a while
        refuse_rewritten(plan, target.pictures)


class Lookout:
    """The lookout of one trace with probes; none of it is the answer, and what cannot be looked at for want of
    descriptors or memory is given up. `tell` gets what is said at once.
    """

    def __init__(
        self, plan: Plan, target: Target, request: Request, session: Session, results: Consumer,
        tell: Callable[[Notice], None], stack: ExitStack,
    ) -> None:  # fmt: skip
        self._source = plan.program.source
        self._results = results
        self._tell = tell
        self._beside = Beside(tell)
        self._older: OlderFiles | None = None
        if not target.pids:
            from tracer.kinds.site import paths_of
            from tracer.tracing.end_warnings import OlderFiles

            self._older = OlderFiles(paths_of(plan.places), tell)
        self._programs: NewPrograms | None = None
        if any(site.in_memory for site in plan.sites):
            from tracer.silence.new_programs import NewPrograms

            self._programs = NewPrograms(target, tell)
            stack.callback(self._programs.close)
        is_of_some = bool(target.pids)
        self._findings = Findings(plan, is_of_some, request.max_rate, self._overhead, results.detached)
        self.guard = self._findings.guard
        self._silence = Silence(plan, target, session, tell, request.verbose, request.quiet)
        stack.callback(self._silence.close)

    @property
    def incomplete(self) -> Collection[Notice]:
        """The notices at the end of what lacks something behind an attach point that was detached."""
        return self._findings.closing

    def start(self) -> None:
        """Notes that everything is attached from now on."""
        if self._older is not None:
            self._beside(self._older.start)
        if self._programs is not None:
            self._beside(self._programs.start)
        self._beside(self._silence.start)

    def look(self) -> None:
        """Called now and then while the trace runs."""
        if self._older is not None:
            self._beside(self._older.look)
        if self._programs is not None:
            self._beside(self._programs.look)
        self._beside(self._silence.look)

    def before_detach(self) -> None:
        """The trace is over, and its probes are still there."""
        if self._programs is not None:
            self._beside(self._programs.before_detach)
        self._beside(self._silence.before_detach)

    def silent(self, outcome: Outcome, trapped: bool) -> list[Notice]:
        """The notices at the end of attach points without hits. `trapped`: a breakpoint has ended the process."""
        unexplained = [NotHit((), 0, "")] if outcome.hits == 0 and outcome.attached else []
        closing = self._silence.closing
        notices: list[Notice] = self._beside(closing, outcome, self._results.silent, trapped, otherwise=unexplained)
        return notices

    def tell_older(self, any_hit: bool) -> None:
        """Says at the end which processes run an older file."""
        if self._older is not None:
            self._beside(self._older.tell, any_hit)

    def why_trapped(self) -> str:
        """Says why a breakpoint of ours has ended the process; "" where it has not, or that is not known."""
        reason: str = self._beside(self._silence.trapped, otherwise="")
        return reason

    def _overhead(self, diagnostic: Diagnostic) -> None:
        self._tell(Overhead(self._source, diagnostic))
