"""Attach points that are never hit, and why: said once after five seconds, and at the end.

After five seconds without any hit all are told. Where others were hit, only those are whose file nobody runs or whose
semaphore is down: that something was not called by then is no news. Nothing of it costs anything at a hit: hits are
counted anyway (`Session.point_hits`). Files are looked at while nothing comes, or when the probes are gone; processes
also where hits are so few that no buffer fills meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tracer.kernel.trials.instructions import place_of
from tracer.lang import typed
from tracer.lang.walk import walk_clause
from tracer.plan.points import Point, points
from tracer.render.loss import counted

if TYPE_CHECKING:
    from tracer.backends.base import Session
    from tracer.cli.tracing.silence_reasons import Reasons
    from tracer.kernel.trials.instructions import Spot
    from tracer.plan.model import Plan
    from tracer.probes.site import Site, Target
    from tracer.render.renderer import Renderer
    from tracer.tracing import Outcome

PATIENCE_S = 5.0
_FEW_HITS = 20_000
"""In that time."""

_EACH = 3
"""Attach points for one reason that have a line each; more share one."""
_NAMED = 3
_TRIES = 50
_EMITS = (typed.Printf, typed.PrintValue, typed.PrintMap, typed.Time)
_WRITES = (typed.Aggregate, typed.MapSet, typed.MapAdd)


class Silence:
    """The silence of one trace. `say` gets the lines of its first seconds. `verbose`: all places that were not hit are
    told.
    """

    def __init__(
        self, plan: Plan, target: Target, session: Session, say: Callable[[str], None], verbose: bool = False
    ) -> None:
        self._plan = plan
        self._verbose = verbose
        self._target = target
        self._session = session
        self._say = say
        self._points: tuple[Point, ...] = ()
        self._hits: Sequence[int] = ()
        self._due = float("inf")
        self._said: set[str] = set()
        self._semaphores: dict[Spot, Sequence[tuple[int, Sequence[int]]]] = {}

    def start(self) -> None:
        """Everything is attached from now on."""
        self._due = time.monotonic() + PATIENCE_S

    def look(self) -> None:
        """Called now and then while the trace runs."""
        if time.monotonic() < self._due:
            return
        silent = self._silent()
        if silent is None:
            return  # the kernel's list cannot be had at the moment
        self._due = float("inf")
        all = len(silent) == len(self._of_probes())
        if not silent or (not all and sum(self._hits) > _FEW_HITS):
            return
        self._note_semaphores(silent)
        explained = self._explain()
        reasons = {number: explained.of(number) if all else explained.of_processes(number) for number in silent}
        for line in self._lines({number: reason for number, reason in reasons.items() if reason is not None}):
            self._said.add(line)
            self._say(line)

    def before_detach(self) -> None:
        """Called when the trace is over and its probes are still there."""
        if not any(site.semaphore is not None for site in self._plan.sites):
            return
        self._note_semaphores(self._silent() or ())
        self._note(site for sites in self._session.unhit_sites().values() for site in sites)

    def closing(self, outcome: Outcome, renderer: Renderer, cut: Collection[int]) -> list[str]:
        """What is said at the end; `cut` are the attach points that were detached before."""
        if not outcome.attached:
            return []
        silent = self._silent(patient=True)
        if silent is None:
            return ["no probe was hit"] if outcome.hits == 0 else []
        silent = [number for number in silent if number not in cut]
        reasons = {number: self._at_end.of(number) for number in silent}
        for number in silent:
            renderer.silent(self._points[number].text, reasons[number])
        lines = [line for line in self._lines(reasons) if line not in self._said]
        if silent and not lines and len(silent) == len(self._of_probes()):
            return ["no probe was hit"]
        return lines + list(self._rejected(outcome, silent, cut)) + list(self._unhit(silent, cut))

    # --- which ---

    def _of_probes(self) -> tuple[Point, ...]:
        self._points = self._points or points(self._plan)
        return self._points

    def _silent(self, patient: bool = False) -> list[int] | None:
        """The attach points without a hit; None where that is not known at the moment."""
        every = self._of_probes()
        hits = self._session.point_hits()
        for _ in range(_TRIES if patient else 0):
            if hits is not None:
                break
            time.sleep(0.01)
            hits = self._session.point_hits()
        if hits is None:
            return None
        if self._target.follow and self._session.hits() == 0:
            hits = [0] * len(every)  # those of others may be among what was counted
        self._hits = hits
        return [number for number, point in enumerate(every) if point.sites and not hits[number]]

    def _rejected(self, outcome: Outcome, silent: Collection[int], cut: Collection[int]) -> Iterator[str]:
        """Attach points that were hit, and whose predicate held for none, where that shows in what is not there."""
        if self._target.follow or outcome.loss:
            return
        for number, point in enumerate(self._points):
            if number in silent or number in cut or point.clause.predicate is None or not point.sites:
                continue
            hits = self._hits[number]
            if hits and self._is_untouched(point.clause, outcome):
                times = "once" if hits == 1 else f"{hits} times"
                yield f"{point.text} was hit {times}, and its predicate never held"

    def _is_untouched(self, clause: typed.Clause, outcome: Outcome) -> bool:
        """Whether what each run of the body does first has never been done."""
        first = clause.body[0] if clause.body else None
        if isinstance(first, _EMITS):
            return not outcome.told
        if not isinstance(first, _WRITES):
            return False
        taken = (typed.Delete, typed.Deleted, typed.Clear, typed.Zero)
        clauses = (*(probe.clause for probe in self._plan.probes), *self._plan.user)
        lacking = any(
            isinstance(node, taken) and node.map == first.map for each in clauses for node in walk_clause(each)
        )
        return not lacking and not self._session.maps.snapshot(first.map).items

    def _unhit(self, silent: Collection[int], cut: Collection[int]) -> Iterator[str]:
        """Sites of wildcards that others were hit of. That a function was not called is no news there: it is told
        with `-v`, and without it what has another reason.
        """
        left_out = {place_of(site) for site in self._session.left_out}
        for number, sites in sorted(self._session.unhit_sites().items()):
            kept = [site for site in sites if place_of(site) not in left_out]
            if kept and number not in silent and number not in cut:
                from tracer.cli.tracing.wildcard_places import unhit_lines

                yield from unhit_lines(self._points[number], kept, self._at_end, number, self._verbose)

    # --- why ---

    def _note_semaphores(self, silent: Collection[int]) -> None:
        for number in silent:
            self._note(self._points[number].sites)

    def _note(self, sites: Iterable[Site]) -> None:
        wanted = [site for site in sites if site.semaphore is not None]
        if wanted:
            from tracer.cli.tracing.silence_reasons import semaphore_values

            self._semaphores.update(semaphore_values(wanted, self._target))

    @cached_property
    def _at_end(self) -> Reasons:
        """One for all attach points: what processes tell is looked up once, and is the same for each."""
        return self._explain()

    def _explain(self) -> Reasons:
        """As it is now."""
        from tracer.cli.tracing.silence_reasons import Reasons

        return Reasons(self._points, self._target, self._session.left_out, self._semaphores)

    def _lines(self, reasons: dict[int, str]) -> list[str]:
        by_reason: dict[str, list[int]] = {}
        for number, reason in reasons.items():
            by_reason.setdefault(reason, []).append(number)
        total = sum(1 for point in self._points if point.sites)
        lines = []
        for reason, numbers in by_reason.items():
            if len(numbers) == total:
                lines.append(f"no probe was hit: {reason}")
            elif len(numbers) <= _EACH:
                lines += [f"{self._points[number].text} was never hit: {reason}" for number in numbers]
            else:
                some = ", ".join(self._points[number].text for number in numbers[:_NAMED])
                of = f"{len(numbers)} of {counted(total, 'attach point')}"
                lines.append(f"{of} were never hit ({some} and {len(numbers) - _NAMED} more): {reason}")
        return lines
