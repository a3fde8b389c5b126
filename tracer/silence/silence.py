"""Attach points that are never hit, and why: said once after five seconds, and at the end.

After five seconds without any hit all are told. Where others were hit, only those are whose file nobody runs or whose
semaphore is down: that something was not called by then is no news. Nothing of it costs anything at a hit: hits are
counted anyway (`Session.point_hits`). Files are looked at while nothing comes, or when the probes are gone; processes
also where hits are so few that no buffer fills meanwhile.

A breakpoint that is gone from the memory of the traced process is noticed where an attach point has had no hit for five
seconds, and set again. In the first seconds it is looked at sooner, since a command may not run for longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from tracer.kinds.site import TailPlace, paths_of
from tracer.lang import typed
from tracer.lang.walk import walk_clause
from tracer.plan.points import Point, ended, points
from tracer.render.notices import (
    BreakpointGone,
    CallsMissed,
    FirstHits,
    NeverHeld,
    NotHit,
    Notice,
    PlacesNotHit,
)

if TYPE_CHECKING:
    from tracer.backends.base import Session
    from tracer.kinds.site import FileSite, Spot, Target
    from tracer.plan.model import Plan
    from tracer.results.events import Outcome
    from tracer.silence.breakpoints import Breakpoints
    from tracer.silence.history import History
    from tracer.silence.reasons import Reasons

PATIENCE_S = 5.0
_FEW_HITS = 20_000
"""In that time."""
_FIRST_S = 0.1
"""After it breakpoints are looked at for the first time, then after twice as long each time."""
_POLL_S = 1.0
"""How often it is asked whether hits have come where none came at first."""

_EACH = 3
"""Attach points for one reason that have a notice each; more share one."""
_SITES = 4
"""Of an attach point, where breakpoints are looked at."""
_TRIES = 50
_EMITS = (typed.Printf, typed.PrintValue, typed.PrintMap, typed.Time)
_WRITES = (typed.Aggregate, typed.MapSet, typed.MapAdd)


class Silence:
    """The silence of one trace. `tell` gets what is said while it runs. `verbose`: all places that were not hit are
    told. `quiet`: only why there is no answer, and what could not be seen. Attach points that were detached are left
    out.
    """

    task = "looking for lost breakpoints, and why probes are silent"

    def __init__(
        self, plan: Plan, target: Target, session: Session, tell: Callable[[Notice], None], verbose: bool = False,
        quiet: bool = False,
    ) -> None:  # fmt: skip
        self._plan = plan
        self._verbose = verbose
        self._quiet = quiet
        self._target = target
        self._session = session
        self._tell = tell
        self._points: tuple[Point, ...] = ()
        self._hits: Sequence[int] = ()
        self._begun = 0.0
        self._due = float("inf")
        self._early = float("inf")
        self._early_hits: Sequence[int] = ()
        self._told: dict[int, str] = {}
        self._awaited: list[tuple[tuple[str, ...], Collection[int]]] = []
        self._poll = float("inf")
        self._semaphores: dict[Spot, Sequence[tuple[int, Sequence[int]]]] = {}
        self._history: History | None = None

    def start(self) -> None:
        """Everything is attached from now on."""
        self._begun = time.monotonic()
        self._due = self._begun + PATIENCE_S
        if self._target.fixed:
            from tracer.silence.history import History

            self._history = History(self._target.fixed)
            self._early = self._begun + _FIRST_S
            if self._target.program is None:
                self._set_again(range(len(self._of_probes())), at_once=True)

    def look(self) -> None:
        """Called now and then while the trace runs."""
        if self._history is not None:
            self._history.read()
        now = time.monotonic()
        if now >= self._poll:
            self._await(now)
        if now >= self._early and now < self._due:
            self._look_early(now)
        if now < self._due:
            return
        before, silent = self._hits, self._silent()
        if silent is None:
            return  # the kernel's list cannot be had at the moment
        first, self._due = not before, float("inf")
        all = len(silent) + len(self._session.gone) == len(self._of_probes())
        few = sum(self._hits) - sum(before) <= _FEW_HITS
        if self._history is not None:
            self._due = now + PATIENCE_S
            if all or few:
                idle = [number for number, hits in enumerate(self._hits) if first or hits == before[number]]
                self._set_again(idle)
        elif silent and (all or few):
            self._set_again(silent, at_once=True)
        if self._quiet or not first or not silent or not (all or few):
            return
        self._note_semaphores(silent)
        explained = self._explain()
        reasons = {number: explained.of(number) if all else explained.of_processes(number) for number in silent}
        self._told = {number: reason for number, reason in reasons.items() if reason is not None}
        for notice, numbers in self._notices(self._told, PATIENCE_S):
            self._awaited.append((notice.points if len(notice.points) < notice.total else (), numbers))
            self._tell(notice)
        self._poll = now + _POLL_S

    def _look_early(self, now: float) -> None:
        before, hits = self._early_hits, self._point_hits()
        if hits is None or not self._of_probes():
            return
        self._early_hits, self._early = hits, now + (now - self._begun)
        if sum(hits) - sum(before) <= _FEW_HITS:
            self._set_again([number for number, count in enumerate(hits) if not before or count == before[number]])

    def before_detach(self) -> None:
        """Called when the trace is over and its probes are still there."""
        silent = self._silent() or ()
        if self._history is not None:
            self._history.read()
            numbers: Collection[int] = range(len(self._of_probes())) if self._history.goes_on else ()
        else:
            numbers = [*silent, *self._of_copied_files(silent)]
        if looked_at := self._to_look_at(numbers):
            self._breakpoints.note(looked_at)
        if any(site.guard is not None for site in self._plan.places):
            self._note_semaphores(silent)
            self._note(site for sites in self._session.unhit_sites().values() for site in sites)

    def closing(
        self, outcome: Outcome, silent_to: Callable[[str, str], None], trapped: bool = False
    ) -> list[Notice]:
        """The notices at the end; `silent_to` gets each silent attach point and why. `trapped`: a breakpoint has ended
        the process, which called nothing after that.
        """
        if not outcome.attached:
            return []
        silent = self._silent(patient=True)
        if silent is None:
            every = tuple(self._points[number].text for number in self._asked())
            return [NotHit(every, len(every), "")] if outcome.hits == 0 else []
        unknown = [number for number in silent if outcome.loss.returns and self._follows_returns(number)]
        silent = [number for number in silent if number not in unknown]
        ended = "a breakpoint has ended the process" if trapped and self.trapped() else None
        reasons = {number: ended or self._at_end.of(number) for number in silent}
        # What was said is not said again.
        fresh = {number: "" if reason == self._told.get(number) else reason for number, reason in reasons.items()}
        unseen = [] if trapped else list(self._unseen(silent))
        rejected = list(self._rejected(outcome, silent))
        events = [] if self._session.hits() < 0 else self._unhit_events()
        answered = len(silent) + len(rejected) + len(events) < len(self._asked())
        for number in () if self._quiet and answered else silent:
            silent_to(self._points[number].text, reasons[number])
        if self._quiet and answered:
            missed = {number: reason for number, reason in fresh.items() if self._at_end.unseen(self._sites(number))}
            return [*(notice for notice, _ in self._notices(missed)), *unseen]
        said: list[Notice] = [*(notice for notice, _ in self._notices(fresh)), *unseen, *rejected]
        if events and not self._quiet:
            for text in events:
                silent_to(text, "")
            said.append(NotHit(tuple(events), len(self._points), ""))
        return said if self._quiet else [*said, *self._unhit(silent)]

    def trapped(self) -> str:
        """Why a breakpoint of ours has ended the process, for a line that says that one did; "" where it was not."""
        if self._history is not None and not self._history.made_code:
            return ""
        from tracer.silence.breakpoints import COPIED

        has_moved = self._history is not None and self._history.moved(self._plan.places)
        return f": it {COPIED}" if has_moved else f": it may have {COPIED}"

    def close(self) -> None:
        """Ends what is recorded."""
        if self._history is not None:
            self._history.close()

    # --- which ---

    def _of_probes(self) -> tuple[Point, ...]:
        """What the user wrote. Behind it is what is tracer's own (`Clause.unasked`)."""
        self._points = self._points or tuple([point for point in points(self._plan) if not point.clause.unasked])
        return self._points

    def _point_hits(self) -> Sequence[int] | None:
        hits = self._session.point_hits()
        return None if hits is None else hits[: len(self._of_probes())]

    def _asked(self) -> list[int]:
        """The attach points that have sites, or got some later and were hit there."""
        every = enumerate(self._points)
        return [number for number, point in every if point.sites or (self._hits and self._hits[number])]

    def _silent(self, patient: bool = False) -> list[int] | None:
        """The attach points without a hit; None where that is not known at the moment."""
        every = self._of_probes()
        hits = self._point_hits()
        for _ in range(_TRIES if patient else 0):
            if hits is not None:
                break
            time.sleep(0.01)
            hits = self._point_hits()
        if hits is None:
            return None
        if self._plan.shared and self._session.hits() == 0:
            hits = [0] * len(every)  # those of others may be among what was counted
        self._hits = hits
        # One that became several, for variables in different places, is hit where any of them is.
        hit = {(point.text, point.span) for number, point in enumerate(every) if hits[number]}
        others = [number for number, point in enumerate(every) if hits[number] or (point.text, point.span) not in hit]
        with_sites = [number for number in others if every[number].places]
        gone = self._session.gone
        return [number for number in with_sites if number not in gone and (not hits[number] or self._by_others(number))]

    def _unhit_events(self) -> list[str]:
        """The attach points of events of the kernel without a hit: nothing is to be explained, none happened."""
        events = [(number, point) for number, point in enumerate(self._points) if point.sites and not point.places]
        gone = self._session.gone
        return [point.text for number, point in events if not (self._hits[number] or number in gone)]

    def _follows_returns(self, number: int) -> bool:
        """Whether the kernel follows its returns: it may have been called where some were not seen."""
        return any(site.is_return_probe for site in self._sites(number))

    def _by_others(self, number: int) -> bool:
        """Whether all hits are in functions that tail calls may lead to, and nothing came there from the probed one."""
        inside = [site for site in self._sites(number) if site.tail & 0xFF != TailPlace.END]
        if len(inside) == len(self._sites(number)):
            return False
        unhit = {site.spot for site in self._session.unhit_sites().get(number, ())}
        return all(site.spot in unhit for site in inside)

    def _sites(self, number: int) -> Sequence[FileSite]:
        return self._points[number].places

    def _await(self, now: float) -> None:
        """Tells of hits where none had come at first."""
        self._poll = now + _POLL_S if self._awaited else float("inf")
        hits = self._point_hits() if self._awaited else None
        if hits is None:
            return
        for awaited in [*self._awaited]:
            if any(hits[number] for number in awaited[1]):
                self._awaited.remove(awaited)
                self._tell(FirstHits(awaited[0], now - self._begun))

    def _unseen(self, silent: Collection[int]) -> Iterator[Notice]:
        """Attach points that were hit, and could be hit no more in a process that goes on."""
        changed = self._history is not None and self._history.changed
        if not changed and "_breakpoints" not in self.__dict__:
            return  # nothing was looked at, and nothing is loaded for it
        for number, point in enumerate(self._points):
            if number in silent or number in self._session.gone or not point.places:
                continue
            if (reason := self._at_end.unseen(point.places)) is not None:
                yield CallsMissed(point.text, self._hits[number] if self._target.pids else -1, reason)

    def _of_copied_files(self, silent: Collection[int]) -> list[int]:
        """The other attach points of files that a process may run as they were before an overlay copied them."""
        from tracer.silence.breakpoints import copied_lately

        if self._target.pids:
            return []
        copied = copied_lately(paths_of(self._plan.places))
        every = enumerate(self._of_probes() if copied else ())
        in_copies = [number for number, point in every if not copied.isdisjoint(paths_of(point.places))]
        return [number for number in in_copies if number not in silent]

    def _to_look_at(self, numbers: Iterable[int]) -> list[FileSite]:
        """A few sites of each of these attach points, as far as there should be breakpoints."""
        left_out = {site.spot for site in self._session.left_out}
        attached = [number for number in numbers if number not in self._session.gone]
        return [site for number in attached for site in self._sites(number)[:_SITES] if site.spot not in left_out]

    def _set_again(self, numbers: Iterable[int], at_once: bool = False) -> None:
        """Looks whether breakpoints are where they should be, and sets again those that are gone."""
        sites = self._to_look_at(numbers)
        for names, whom in self._breakpoints.set_again(sites, at_once) if sites else ():
            self._tell(BreakpointGone(names, whom))
        if sites and self._breakpoints.suspects:
            self._early = time.monotonic()  # in the next round

    @cached_property
    def _breakpoints(self) -> Breakpoints:
        from tracer.silence.breakpoints import Breakpoints

        return Breakpoints(self._target)

    def _rejected(self, outcome: Outcome, silent: Collection[int]) -> Iterator[Notice]:
        """Attach points that were hit, and whose predicate held for none, where that shows in what is not there."""
        if self._target.follow or outcome.loss:
            return
        under_way = [call.function for call in outcome.open_calls]
        for number, point in enumerate(self._points):
            predicate, body = point.clause.as_written
            if number in silent or number in self._session.gone or predicate is None or not point.places:
                continue
            hits = ended(point, self._hits[number], under_way)
            if hits and self._is_untouched(body, outcome):
                yield NeverHeld(point.text, hits)

    def _is_untouched(self, body: tuple[typed.Stmt, ...], outcome: Outcome) -> bool:
        """Whether what each run of the body does first has never been done."""
        first = body[0] if body else None
        if isinstance(first, _EMITS):
            return not outcome.told
        if not isinstance(first, _WRITES):
            return False
        taken = (typed.Delete, typed.Deleted, typed.Clear, typed.Zero)
        clauses = (*(probe.clause for probe in self._plan.probes), *self._plan.user)
        nodes = (node for other in clauses for node in walk_clause(other) if isinstance(node, taken))
        return first.map not in {node.map for node in nodes} and not self._session.maps.snapshot(first.map).items

    def _unhit(self, silent: Collection[int]) -> Iterator[Notice]:
        """Sites of wildcards that others were hit of. That a function was not called is no news there: it is told
        with `-v`, and without it what has another reason.
        """
        left_out = {site.spot for site in self._session.left_out}
        for number, sites in sorted(self._session.unhit_sites().items()):
            kept = [site for site in sites if site.spot not in left_out]
            others = self._hits and self._hits[number] and len(kept) == len(self._points[number].places)
            # Where all hits were in files that came later, of these there is nothing to tell.
            if kept and not others and number not in silent and number not in self._session.gone:
                from tracer.silence.wildcard_places import unhit_lines

                lines = unhit_lines(self._points[number], kept, self._at_end, number, self._verbose)
                yield from map(PlacesNotHit, lines)

    # --- why ---

    def _note_semaphores(self, silent: Collection[int]) -> None:
        for number in silent:
            self._note(self._points[number].places)

    def _note(self, sites: Iterable[FileSite]) -> None:
        wanted = [site for site in sites if site.guard is not None]
        if wanted:
            from tracer.silence.reasons import semaphore_values

            self._semaphores.update(semaphore_values(wanted, self._target))

    @cached_property
    def _at_end(self) -> Reasons:
        """The reasons at the end, one object for all attach points: what processes tell is looked up once, and is the
        same for each.
        """
        return self._explain()

    def _explain(self) -> Reasons:
        """The reasons as things are now."""
        from tracer.silence.reasons import Reasons

        if self._history is not None:
            self._history.read()
        raised = getattr(self._session, "raised", None)
        return Reasons(
            self._points, self._target, self._session.left_out, self._semaphores, self._breakpoints, self._history,
            raised == 0,
        )  # fmt: skip

    def _notices(
        self, reasons: dict[int, str], seconds: float | None = None
    ) -> Iterator[tuple[NotHit, Collection[int]]]:
        """The notices, each with the attach points that it is about, by their numbers."""
        by_reason: dict[str, list[int]] = {}
        for number, reason in reasons.items():
            by_reason.setdefault(reason, []).append(number)
        total = len(self._asked())
        for reason, numbers in by_reason.items():
            together = len(numbers) == total or len(numbers) > _EACH
            for part in [numbers] if together else [[number] for number in numbers]:
                yield NotHit(tuple(self._points[number].text for number in part), total, reason, seconds), part
