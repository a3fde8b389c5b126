"""Puts a trace together and runs it: whom it traces, what names addresses, what keeps the target from harm, what
explains silence. Nothing else knows how these belong together.

It may run in any thread, and several at once. It changes nothing of the process: no signal, no environment, no setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from tracer.backends import Surroundings
from tracer.dataclass import names, replace
from tracer.errors import TracerError, counted
from tracer.host.polling import readable
from tracer.kinds.site import Target, files_of
from tracer.lang.typed import KStack, KSym, UStack, USym
from tracer.lang.walk import walk_clause
from tracer.pipeline import are_too_many, open_session
from tracer.render.notices import (
    Attached,
    BeingWritten,
    Chosen,
    Consumer,
    Detail,
    Ended,
    LeftOut,
    Missed,
    NotFollowed,
    Notice,
    NotUndone,
    PassedOver,
    Raised,
    Replaced,
    Waits,
    Warned,
)
from tracer.tracing.effects import Effects
from tracer.tracing.loop import Watched, probe_count, run

if TYPE_CHECKING:
    from typing import Any

    from tracer.backends.semaphore_copies import SemaphoreCopies
    from tracer.host.leases import Leases
    from tracer.results.events import Outcome
    from tracer.target.child import Child
    from tracer.tracing import Prepared
    from tracer.tracing.effects import Words
    from tracer.tracing.later import LaterFiles
    from tracer.tracing.lookout import Lookout
    from tracer.tracing.loop import Controls
    from tracer.tracing.names import Names

_NOT_COUNTED = "other processes run into them too, and are not counted"
_IN_PYTHON = "hits of tracer's own child before its exec count too: it has no unprobed code to wait in"


class Trace:
    """The trace of what has been `prepared` and compiled. `results` makes the consumers of results, once what names
    addresses is there; `told` gets all that is to be said beside them, and so do they. `words` takes what the program's
    own system() and cat() complain of.
    """

    def __init__(
        self, prepared: Prepared, controls: Controls, told: Consumer, words: Words,
        results: Callable[[Names | None, Effects], Consumer],
    ) -> None:  # fmt: skip
        self._prepared = prepared
        self._compiled = self._running = compiled = prepared.compiled
        self._plan = compiled.plan
        self._request = prepared.request
        self._argv = prepared.argv
        self._processes = prepared.processes
        self._target = prepared.target
        self._controls = controls
        self._told = told
        self._effects = Effects(words)
        self._make = results
        self._told_details: tuple[str, ...] = ()
        self._begun = self._seconds = 0.0
        self._names: Names | None = None
        self._child: Child | None = None
        self._leases: Leases | None = None
        self._copies: SemaphoreCopies | None = None
        self._lookout: Lookout | None = None
        self._later: LaterFiles | None = None

    def run(self) -> Outcome:
        """The whole trace, from the command's start to the last word. Raises `TracerError`; all is undone then."""
        with ExitStack() as stack:
            self._begin(stack)
            outcome = self._traced()
            self._close(outcome)
        return outcome

    @property
    def ending(self) -> bool:
        """Whether the end is asked for, or here."""
        return self._controls.stop or self._controls.detached

    def so_far(self) -> tuple[int, int]:
        """The hits while it runs, -1 where they are not known, and how much was lost."""
        loss = self._session.loss()
        return self._session.hits(), sum(max(getattr(loss, name), 0) for name in names(loss) if name != "full")

    # --- what it consists of ---

    def _begin(self, stack: ExitStack) -> None:
        plan, request, controls = self._plan, self._request, self._controls
        if self._processes is not None and self._processes.chosen:
            self._tell(Chosen(f"tracing {self._processes.chosen}"))
        if self._processes is not None and request.verbose:
            from tracer.target.chosen import described

            self._tell(*(Detail(f"process {described(pid)}") for pid in self._processes.pids))
        if plan.shared and not plan.follow and are_too_many(self._target, len(plan.places)):
            much = f"{len(self._target.pids)} processes at {counted(len(plan.places), 'place')}"
            self._tell(Chosen(f"{much} are too many for probes of their own: {_NOT_COUNTED}"))
        self._tell(*map(PassedOver, self._compiled.notes))
        if plan.probes:
            from tracer.tracing.lookout import refuse

            refuse(plan, self._target, self._processes is not None, self._argv, request.follow)
        if self._argv is not None:
            from tracer.target.child import Child

            self._child = stack.enter_context(self._prepared.child or Child(self._argv))
        self._watched = self._whom(stack)
        names = self._names = self._named(stack)
        self._results = self._make(names, self._effects)
        if plan.probes:
            from tracer.host.leases import Leases

            self._leases = self._effects.leases = stack.enter_context(Leases(controls.end))
            controls.before_attach = self._take_leases
        around = Surroundings(
            *((names.unwinder, names.interpreters, names.places) if names is not None else (None, None, None)),
            lambda: controls.wake, lambda: self._leases.descriptors if self._leases is not None else (), self._waits,
        )  # fmt: skip
        self._session: Any = open_session(self._compiled, self._target, around)
        stack.enter_context(self._session)
        self._hold_child()
        self._told_details = self._session.details
        self._running = getattr(self._session, "running", self._compiled)
        self._copies = self._semaphores(stack)
        self._tell(*map(PassedOver, self._running.notes[len(self._compiled.notes) :]))
        self._tell(*map(Detail, (*self._unused_activation(), *self._told_details)))
        if plan.probes:
            from tracer.tracing.lookout import Lookout

            self._lookout = Lookout(plan, self._target, request, self._session, self._results, self._tell, stack)
        if plan.sites_so_far is not None:
            from tracer.tracing.later import later_files

            self._later = later_files(
                self._prepared, self._target, self._session, self._tell, self._leases, self._controls, stack
            )
        controls.meanwhile, controls.regularly = self._meanwhile, self._regularly
        controls.before_detach, controls.duration_s = self._before_detach, request.duration_s

    def _named(self, stack: ExitStack) -> Names | None:
        """The object that names addresses; None where the program has none."""
        nodes = (node for clause in self._plan.program.clauses for node in walk_clause(clause))
        if not any(isinstance(node, UStack | KStack | USym | KSym) for node in nodes):
            return None
        from tracer.tracing.names import Names

        names = stack.enter_context(closing(Names(self._plan, self._target, lambda: self._controls.hurry)))
        self._controls.wake = (*self._controls.wake, *names.wake)
        return names

    def _whom(self, stack: ExitStack) -> Watched | None:
        """The processes whose end ends the trace; a descriptor wakes the loop."""
        child, request, controls = self._child, self._request, self._controls
        watched = child if child is not None else self._processes
        if watched is None:
            return None
        if child is not None and not child.started:
            self._target = Target((child.pid,), child.path, request.follow)
        members = [child] if child is not None else self._processes.members if self._processes is not None else []
        ended, wake = watched.ended, watched.pidfd
        if request.follow:
            from tracer.kernel.kin.descendants import Family

            family = stack.enter_context(closing(Family((process.pid, process.pidfd) for process in members)))
            wake = family.fd

            def ended() -> bool:
                # In this order: what woke the loop is noted by the first.
                return family.ended() and watched.ended()

        if wake >= 0:
            controls.wake = (*controls.wake, wake)
        return Watched(ended) if child is None else Watched(ended, child.start, child.pid)

    def _hold_child(self) -> None:
        child = self._child
        if child is None or child.started:
            return
        child.wait()
        if child.in_python is not None:
            self._tell(Warned(f"{_IN_PYTHON} ({child.in_python})"))
        if any(site.in_memory for site in self._plan.sites):
            child.hold()
        if hasattr(self._session, "raise_all") and self._watched is not None:
            self._watched = replace(self._watched, start=self._start_raised)

    def _start_raised(self) -> None:
        """Starts the command, whose semaphores tracer raises once it is in memory."""
        raised: list[int] = []
        assert self._child is not None
        self._child.start(lambda: raised.append(self._session.raise_all()))
        if raised:  # where none was raised, the answer lacks all that they guard
            self._tell(Raised(self._session.activation) if raised[0] else Warned(self._session.activation))

    def _semaphores(self, stack: ExitStack) -> SemaphoreCopies | None:
        """The semaphores that the kernel leaves out; None where it counts none in a library."""
        running, controls = self._running, self._controls
        if running.by_hand or not any(site.semaphore is not None for site in running.plan.places):
            return None
        from tracer.backends.semaphore_copies import SemaphoreCopies, libraries

        if not (paths := libraries(running.plan)):
            return None
        copies = SemaphoreCopies(running.plan, self._target, paths)
        stack.callback(copies.close)
        controls.wake = (*controls.wake, *copies.wake)
        return copies

    def _take_leases(self) -> None:
        """A lease on each file that is to be probed, the moment before. Who is about to write it ends the trace."""
        assert self._leases is not None
        self._leases.take(files_of(self._plan.places).values())

    # --- while it runs ---

    def _traced(self) -> Outcome:
        guard = self._lookout.guard if self._lookout is not None else None
        results = self._results
        try:
            outcome = run(
                self._session, self._plan, results, self._controls, self._watched, self._on_attached, guard
            )
        except (TracerError, BrokenPipeError):
            raise
        except Exception:  # a fault of ours, which is no reason to end a command half-way
            self._finish()
            if self._child is not None and self._child.started:
                self._wait_for_child()
            raise
        self._seconds = time.monotonic() - self._begun if self._begun else 0.0
        if guard is not None:
            guard.tell()
        return outcome

    def _on_attached(self, sites: int) -> None:
        before, self._running = self._running, getattr(self._session, "running", self._compiled)
        if self._running is not before:
            self._tell(PassedOver(self._running.notes[-1]))
            self._told_details = ()
        if self._copies is not None:
            self._copies.start()
        left_out = self._session.left_out
        if left_out:
            self._tell(LeftOut(tuple(site.shown for site in left_out), sites))
        started = self._child is not None and self._child.started  # to see what it maps
        if started and hasattr(self._session, "raise_all"):
            self._session.raise_all()
        if (self._child is None or started) and (activation := getattr(self._session, "activation", "")):
            self._tell(Raised(activation))
        # Before the word that makes others go on: what they start then is traced.
        apart = tuple(self._not_followed())
        self._tell(Attached(probe_count(self._plan, left_out), sites, self._running.backend))
        self._tell(*map(Detail, (*self._session.details[len(self._told_details) :], *self._not_leased())))
        self._told_details = self._session.details
        self._begun = time.monotonic()
        if self._lookout is not None:
            self._lookout.start()
        if self._later is not None:
            self._later.start()
        self._tell(*apart)

    def _meanwhile(self) -> None:
        """Called while nobody reads the output: the traced programs must not pay for that."""
        self._session.collect()
        if self._lookout is not None and not self._controls.detached:
            self._lookout.guard.look(self._session, time.monotonic_ns)

    def _regularly(self) -> None:
        if self._names is not None:
            self._names.keep_up()
        if self._copies is not None:
            self._copies.look()
        if self._lookout is not None:
            self._lookout.look()
        if self._later is not None:
            self._later.look()

    def _before_detach(self) -> None:
        if self._copies is not None:
            self._copies.before_detach()
        if self._lookout is not None:
            self._lookout.before_detach()

    def _waits(self, line: str) -> None:
        """The kernel takes long. At the end it can wait for the command, which is then ended at once, as it would be
        later.
        """
        ending = self._controls.leave = self._controls.detached
        self._tell(Waits(line, ending))
        if ending and self._child is not None and (self._leases is None or self._leases.wanted is None):
            self._child.end()

    # --- the end ---

    def _close(self, outcome: Outcome) -> None:
        """Says all there is to say when all is counted; results come first, and are written before the undoing."""
        self._results.lost(outcome.loss)
        trapped = self._child is not None and self._child.trapped
        silent = self._lookout.silent(outcome, trapped) if self._lookout is not None else []
        self._finish()
        self._return_leases()
        if self._lookout is not None:
            self._lookout.tell_older(outcome.hits != 0)
        if self._session.not_undone is not None:
            self._tell(NotUndone(self._session.not_undone))
        if self._copies is not None:
            self._copies.close()
        self._tell(*map(Missed, (*self._session.missed, *(self._copies.closing() if self._copies is not None else ()))))
        if self._names is not None:
            self._tell(*self._names.closing(self._running.backend or ""))
        self._tell(*map(Detail, self._session.details[len(self._told_details) :]))
        if self._child is not None:
            self._child.end()
            if (failure := self._child.failure()) is not None:
                from tracer.render.notices import CommandFailed

                more = self._lookout.why_trapped() if self._lookout is not None and trapped else ""
                self._tell(CommandFailed(failure + more))
        if self._lookout is not None:
            self._tell(*self._lookout.incomplete)
        if outcome.open_calls:
            from tracer.tracing.open_calls import told

            self._tell(told(outcome.open_calls))
        if outcome.loss:
            from tracer.tracing.end_warnings import lost

            self._tell(lost(self._plan, outcome.loss, self._running.backend))
        self._tell(*silent, *(self._later.unmet() if self._later is not None else ()))
        self._tell(Ended(outcome.code, outcome.hits, self._seconds))

    def _finish(self) -> None:
        self._results.finish()
        self._told.finish()
        self._session.close()

    def _return_leases(self) -> None:
        leases = self._leases
        if leases is None:
            return
        if not self._target.fixed:
            self._tell(*map(Replaced, leases.replaced()))
        leases.release()
        if leases.wanted is not None:
            self._tell(BeingWritten(leases.wanted))
            self._effects.finish()
            self._told.finish()
            self._wait_for_child()

    def _wait_for_child(self) -> None:
        """Until the command has ended, or somebody asks once more for the end."""
        child, controls = self._child, self._controls
        while child is not None and not controls.hurry and not child.ended():
            readable([fd for fd in (controls.bell, child.pidfd) if fd >= 0], 1.0)
            controls.acknowledge()

    def _tell(self, *notices: Notice) -> None:
        for notice in notices:
            self._told.notice(notice)

    def _not_followed(self) -> Iterator[Notice]:
        if self._processes is not None and self._request.follow:
            from tracer.host.stat import descendants

            if pids := descendants(self._target.pids):
                yield NotFollowed(self._target.pids, tuple(pids))

    def _not_leased(self) -> Iterator[str]:
        for path, reason in self._leases.refused.items() if self._leases is not None else ():
            yield f"no lease on {path}, so tracer will not notice when somebody writes it: {reason}"

    def _unused_activation(self) -> Iterator[str]:
        if self._request.activation and not self._running.by_hand:
            has_semaphores = any(site.guard is not None for site in self._running.plan.places)
            why = "the kernel counts semaphores" if has_semaphores else "no probe has a semaphore"
            yield f"--usdt-file-activation changes nothing: {why}"
