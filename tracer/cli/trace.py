"""A compiled program on its way: the child, the signals, the renderer, and what is said on stderr before and after."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, BinaryIO

from tracer.cli.closing import closing_lines
from tracer.cli.names import Names
from tracer.cli.signals import Signals
from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.pipeline import open_session
from tracer.resolve.model import Target
from tracer.tracing import Controls, Watched, probe_count, run

if TYPE_CHECKING:
    from tracer.backends.activated import ActivatedSession
    from tracer.backends.base import Session
    from tracer.child import Child
    from tracer.pipeline import Compiled
    from tracer.render.json import JsonRenderer
    from tracer.render.text import TextRenderer
    from tracer.running import RunningProcess


@dataclass(frozen=True, slots=True)
class Request:
    """How to run it: whom (`process` of -p, `argv` of -c, or everybody; descendants too with `follow`), and where
    results and words go.
    """

    process: RunningProcess | None
    argv: tuple[str, ...] | None
    follow: bool
    format: str
    output: str | None
    quiet: bool
    verbose: bool
    activation: bool = False


def trace(compiled: Compiled, request: Request) -> int:
    """Runs the program to its end; returns the exit status."""
    if not request.quiet:
        for note in compiled.notes:
            _say(f"tracer: {note}")
    with ExitStack() as stack:
        out = stack.enter_context(_output(request.output))
        child = stack.enter_context(_child(request.argv)) if request.argv is not None else None
        controls = Controls()
        stack.enter_context(Signals(controls, last=True))
        target, watched = _watched(request, child, controls, stack)
        names = stack.enter_context(closing(Names(compiled.plan, target)))
        renderer = _renderer(compiled, request.format, names, out)
        running, session = open_session(compiled, target)
        stack.enter_context(session)
        by_hand = _by_hand(session) if running.by_hand else None
        known = session.details
        if not request.quiet:
            details = (*_unused_activation(running, request), *known) if request.verbose else ()
            for note in (*running.notes[len(compiled.notes) :], *details):
                _say(f"tracer: {note}")
        attached = f"Attached {_counted(probe_count(compiled.plan), 'probe')}"

        def on_attached(sites: int) -> None:
            if not request.quiet:
                if by_hand is not None:
                    _say(f"tracer: {by_hand.activation}")
                backend = f" through {running.backend}, {_counted(sites, 'site')}" if running.backend else ""
                _say(attached + (backend if request.verbose else ""))
                for note in session.details[len(known) :] if request.verbose else ():
                    _say(f"tracer: {note}")

        outcome = run(session, compiled.plan, renderer, controls, watched, on_attached)
        renderer.lost(outcome.loss)
        renderer.flush()
        session.close()
        if by_hand is not None and by_hand.left is not None:
            _say(f"tracer: {by_hand.left}")
        if child is not None:
            child.end()
            if (failure := child.failure()) is not None:
                _say(f"tracer: {failure}")
        for line in closing_lines(compiled.plan, target, outcome, running.backend, request.quiet):
            _say(f"tracer: {line}")
        return outcome.code


def _by_hand(session: Session) -> ActivatedSession | None:
    from tracer.backends.activated import ActivatedSession

    return session if isinstance(session, ActivatedSession) else None


def _unused_activation(running: Compiled, request: Request) -> tuple[str, ...]:
    if not request.activation or running.by_hand:
        return ()
    has_semaphores = any(site.semaphore is not None for site in running.plan.sites)
    why = "the kernel counts semaphores" if has_semaphores else "no probe has a semaphore"
    return (f"--usdt-file-activation changes nothing: {why}",)


@contextmanager
def _output(path: str | None) -> Iterator[BinaryIO]:
    """Where results go, as bytes: a traced program's strings come out as they went in."""
    if path is None:
        yield sys.stdout.buffer
        return
    try:
        file = open(path, "wb")  # noqa: SIM115 - closed below; errors in the body are not ours to translate
    except OSError as error:
        raise TracerError(f"cannot write {path}: {error.strerror}") from None
    with file:
        yield file


def _renderer(compiled: Compiled, format: str, names: Names, out: BinaryIO) -> TextRenderer | JsonRenderer:
    if format == "json":
        from tracer.render.json import JsonRenderer

        return JsonRenderer(compiled.plan.program, names, out)
    from tracer.render.text import TextRenderer

    return TextRenderer(compiled.plan.program, names, out)


def _child(argv: tuple[str, ...]) -> Child:
    from tracer.child import Child

    return Child(argv)


def _watched(
    request: Request, child: Child | None, controls: Controls, stack: ExitStack
) -> tuple[Target, Watched | None]:
    """Whom to trace, and whose end ends the trace; its descriptor wakes the loop."""
    watched = child if child is not None else request.process
    if watched is None:
        return Target(), None
    target = Target(watched.pid, child.path if child is not None else None, request.follow)
    ended, wake = watched.ended, watched.pidfd
    if request.follow:
        from tracer.backends.descendants import Family

        family = stack.enter_context(closing(Family(watched.pid, watched.pidfd)))
        wake = family.fd

        def ended() -> bool:
            # In this order: what woke the loop is noted by the first.
            return family.ended() and watched.ended()

    if wake >= 0:
        controls.wake = (*controls.wake, wake)
    return target, Watched(ended) if child is None else Watched(ended, child.start, child.pid)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
