"""A compiled program on its way: the child, the signals, the renderer, and what is said on stderr before and after."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from tracer.cli.tracing.output import Output, Words
from tracer.cli.tracing.signals import Signals, tell_wait
from tracer.dataclass import dataclass, replace
from tracer.errors import TracerError
from tracer.host.polling import readable
from tracer.pipeline import open_session
from tracer.probes.site import Target
from tracer.render import renderer_of
from tracer.render.loss import counted
from tracer.tracing.effects import Effects
from tracer.tracing.loop import Controls, Watched, probe_count, run
from tracer.tracing.names import RECORDS_LOST, Names

_COLLECTIONS = (20_000, 50, 50)
"""For gc.set_threshold: an event makes some objects and no cycle, and looking for cycles after each 700 objects, as
Python does by itself, took a tenth of the time of a million events.
"""

if TYPE_CHECKING:
    from tracer.backends.base import Session
    from tracer.backends.fallback import FallbackSession
    from tracer.backends.semaphore_copies import SemaphoreCopies
    from tracer.cli.tracing.stacks import Wanted
    from tracer.errors import Diagnostic, Source
    from tracer.host.leases import Leases
    from tracer.overhead.guard import Guard
    from tracer.pipeline import Compiled
    from tracer.plan.model import Plan
    from tracer.silence.silence import Silence
    from tracer.target.child import Child
    from tracer.target.running import RunningProcess
    from tracer.tracing.end_warnings import OlderFiles

_COPYING = ("node", "php")
"""How the names of programs begin that may copy their code."""
_REPLACED = "{} was replaced during the trace: programs started since then run the new file, which was not probed"
_WRITTEN = (
    "the trace was ended because somebody is about to write {}: probes in a changing file harm the programs that run it"
)
_IN_PYTHON = "hits of tracer's own child before its exec count too: it has no unprobed code to wait in"


@dataclass(frozen=True, slots=True)
class Request:
    """How to run it: whom (`process` of -p, `argv` of -c, or everybody; descendants too with `follow`), and where
    results and words go. `max_rate` is the most hits a second of an attach point; `stacks` the format of maps of
    stacks. `failures`: what could not be read is told with the results, too. `warnings` are printed, what warnf() says
    too. `raw`: a terminal gets values as they are.
    """

    process: RunningProcess | None
    argv: tuple[str, ...] | None
    follow: bool
    format: str
    output: str | None
    quiet: bool
    verbose: bool
    activation: bool = False
    max_rate: int | None = None
    buffering: str = "line"
    stacks: Wanted | None = None
    failures: bool = False
    warnings: bool = True
    raw: bool = False


def trace(compiled: Compiled, request: Request) -> int:
    """Runs the program to its end; returns the exit status."""
    plan = compiled.plan
    with ExitStack() as stack:
        controls = Controls()
        words = stack.enter_context(Words(controls, request.raw))

        def say(line: str, prefix: str = "tracer: ") -> None:
            if not line.isprintable():
                from tracer.errors import printable

                line = printable(line)  # the names of files and functions are not the user's own
            words.say(f"{prefix}{line}\n")

        def note(*lines: str) -> None:
            for line in () if request.quiet else lines:
                say(line)

        note(*compiled.notes)
        out = _output(request, controls, stack)
        child = None
        if any(os.path.basename(site.path).startswith(_COPYING) for site in plan.sites):
            from tracer.silence.copied_code import refuse_copied_code

            of_one = not request.follow and (request.process is not None or request.argv is not None)
            refuse_copied_code(plan, request.argv, of_one)
        if request.process is not None and plan.probes:
            from tracer.silence.rewritten import refuse_rewritten

            refuse_rewritten(plan, request.process.pid)
        if request.argv is not None:
            from tracer.target.child import Child

            child = stack.enter_context(Child(request.argv))
        signals = stack.enter_context(Signals(controls, last=True))
        target, watched = _watched(request, child, controls, stack)
        names = stack.enter_context(closing(Names(plan, target)))
        controls.regularly = names.keep_up
        controls.wake = (*controls.wake, *names.wake)
        effects = Effects(words)
        arguments = plan.program, names, out, request.quiet, effects
        if request.stacks is None:
            renderer = renderer_of(request.format)(*arguments)
        else:
            from tracer.cli.tracing.stacks import renderer_of_stacks

            renderer = renderer_of_stacks(
                request.stacks, request.output is None, request.buffering, controls, stack, *arguments
            )
        renderer.tells_failures, renderer.warns = request.failures, request.warnings
        leases = None
        if plan.probes:
            from tracer.host.leases import Leases

            leases = effects.leases = stack.enter_context(Leases(partial(setattr, controls, "stop", True)))
        session = open_session(compiled, target)
        stack.enter_context(session)
        session.unwinder, session.interpreters, session.places = names.unwinder, names.interpreters, names.places
        session.waits = partial(tell_wait, say, controls, signals, child, leases)
        if child is not None:
            child.wait()
            if child.in_python is not None:  # with -q too: the answer may be too much
                say(f"{_IN_PYTHON} ({child.in_python})")
            if hasattr(session, "raise_all") and watched is not None:
                watched = replace(watched, start=partial(_start_raised, child, session, say, request.quiet))
        controls.meanwhile = session.collect
        if leases is not None:
            controls.before_attach = partial(_take, leases, plan, session)
        known = session.details
        running = _running(session, compiled)
        copies = _copies(running, target, controls, stack)
        note(*running.notes[len(compiled.notes) :])
        if request.verbose:
            note(*_unused_activation(running, request), *known)

        def on_attached(sites: int) -> None:
            nonlocal known, running
            before, running = running, _running(session, compiled)
            if running is not before:
                note(running.notes[-1])
                known = ()
            if copies is not None:
                copies.start()
            left_out = session.left_out
            if left_out:
                from tracer.tracing.end_warnings import not_probed

                say(not_probed(left_out, sites))  # with -q too: the answer is incomplete
            if child is None and (activation := getattr(session, "activation", "")):
                note(activation)
            apart = _not_followed(request)  # before the word that makes others go on: what they start then is traced
            attached = f"Attached {counted(probe_count(plan, left_out), 'probe')}"
            if request.verbose and running.backend:
                attached += f" through {running.backend}, {counted(sites, 'site')}"
            if not request.quiet:
                say(attached, prefix="")
            if request.verbose:
                note(*session.details[len(known) :], *_not_leased(leases))
                known = session.details
            for each in (older, silence):
                if each is not None:
                    each.start()
            note(*apart)

        findings = guard = silence = older = None
        if plan.probes:
            from tracer.overhead.findings import Findings

            if target.pid is None:
                from tracer.tracing.end_warnings import OlderFiles

                older = OlderFiles({site.path for site in plan.sites}, say)

            warn = None if request.quiet or not request.warnings else partial(_warn, words, plan.program.source)
            findings = Findings(plan, target.pid is not None, request.max_rate, warn, renderer.detached)
            guard = findings.guard
            controls.meanwhile = partial(_meanwhile, session, guard, controls)
            from tracer.silence.silence import Silence

            silence = Silence(plan, target, session, say, request.verbose, request.quiet, findings.cut)
            stack.callback(silence.close)
            controls.regularly = partial(_regularly, names, copies, older, silence)
            controls.before_detach = partial(_before_detach, copies, silence)
        gc.freeze()  # what is there now stays
        gc.set_threshold(*_COLLECTIONS)
        gc.enable()
        try:
            outcome = run(session, plan, renderer, controls, watched, on_attached, guard)
        except (TracerError, BrokenPipeError):
            raise
        except Exception:  # a fault of ours, which is no reason to end a command half-way
            renderer.finish()
            out.finish()
            session.close()
            if child is not None and child.started:
                _wait_for(child, controls)
            raise
        if guard is not None:
            guard.tell()
        renderer.lost(outcome.loss)
        trapped = child is not None and child.trapped
        silent = silence.closing(outcome, renderer, findings.cut, trapped) if silence and findings else []
        renderer.finish()
        out.finish()
        session.close()
        if leases is not None:
            if target.pid is None or target.follow:
                for path in leases.replaced():
                    say(_REPLACED.format(path))  # with -q too
            leases.release()
            if leases.wanted is not None:
                say(_WRITTEN.format(leases.wanted))  # with -q too
                effects.finish()
                out.finish()
                if child is not None:
                    _wait_for(child, controls)
        if older is not None:
            older.tell(outcome.hits != 0)  # with -q too
        if session.left is not None:
            say(session.left)
        if copies is not None:
            copies.close()
        for line in (*session.missed, *(copies.closing() if copies is not None else ())):
            say(line)  # with -q too
        broken, ended = names.endings(running.backend or "")
        if broken is not None:
            say(broken)
        if request.verbose and ended is not None:
            say(ended)
            note(*session.details[len(known) :])
        for line in names.lacking():
            say(line)
        if names.missed is not None:
            say(RECORDS_LOST.format(counted(names.missed, "record") if names.missed else "records"))
        if child is not None:
            child.end()
            if (failure := child.failure()) is not None:
                say(failure + (silence.trapped() if silence is not None and trapped else ""))
        for line in findings.closing if findings is not None else ():
            say(line)
        if outcome.loss:
            from tracer.tracing.end_warnings import closing_lines

            for line in closing_lines(plan, outcome, running.backend):
                say(line)
        for line in silent:
            say(line)
        if out.left_out:
            say(f"{out.left_out} bytes of output left out: nobody reads them")
        words.finish()
        return outcome.code or (1 if out.left_out else 0)


def _not_followed(request: Request) -> tuple[str, ...]:
    if request.process is None or not request.follow:
        return ()
    from tracer.tracing.end_warnings import not_followed

    return tuple(not_followed(request.process.pid))


def _start_raised(child: Child, session: Any, say: Callable[[str], None], quiet: bool) -> None:
    """Starts the command, whose semaphores tracer raises once it is in memory. `session` is an `ActivatedSession`, or
    one around it, that can be another since it has attached.
    """
    raised: list[int] = []
    child.start(lambda: raised.append(session.raise_all()))
    if raised and not (quiet and raised[0]):  # where none was raised, the answer lacks all that they guard
        say(session.activation)


def _meanwhile(session: Session, guard: Guard, controls: Controls) -> None:
    """Called while nobody reads the output: the traced programs must not pay for that."""
    session.collect()
    if not controls.detached:
        guard.look(session, time.monotonic_ns)


def _warn(words: Words, source: Source, warning: Diagnostic) -> None:
    from tracer.cli.errors import diagnostics_text

    words.say(diagnostics_text(source, [warning]))


def _regularly(names: Names, *others: SemaphoreCopies | OlderFiles | Silence | None) -> None:
    names.keep_up()
    for each in others:
        if each is not None:
            each.look()


def _before_detach(*others: SemaphoreCopies | Silence | None) -> None:
    for each in others:
        if each is not None:
            each.before_detach()


def _copies(running: Compiled, target: Target, controls: Controls, stack: ExitStack) -> SemaphoreCopies | None:
    """The semaphores that the kernel leaves out; None where it counts none in a library."""
    if running.by_hand or not any(site.semaphore is not None for site in running.plan.sites):
        return None
    from tracer.backends.semaphore_copies import SemaphoreCopies, libraries

    if not (paths := libraries(running.plan)):
        return None
    copies = SemaphoreCopies(running.plan, target, paths)
    stack.callback(copies.close)
    controls.wake = (*controls.wake, *copies.wake)
    return copies


def _take(leases: Leases, plan: Plan, session: Session) -> None:
    """Takes a lease on each file that is to be probed, the moment before. Who is about to write it ends the trace."""
    sites = {id(site.identity): site for site in plan.sites}.values()
    leases.take({(site.identity.device, site.identity.inode): site.path for site in sites}.values())
    session.kept = leases.descriptors


def _not_leased(leases: Leases | None) -> Iterator[str]:
    for path, reason in leases.refused.items() if leases is not None else ():
        yield f"no lease on {path}, so tracer will not notice when somebody writes it: {reason}"


def _wait_for(child: Child, controls: Controls) -> None:
    """Until the command of -c has ended, or somebody asks once more for the end."""
    while not controls.hurry and not child.ended():
        readable([fd for fd in (controls.signals, child.pidfd) if fd >= 0], 1.0)
        controls.acknowledge()


def _running(session: Session | FallbackSession[Compiled], compiled: Compiled) -> Compiled:
    """What runs: attaching can have gone on to another backend."""
    return getattr(session, "running", compiled)


def _unused_activation(running: Compiled, request: Request) -> tuple[str, ...]:
    if not request.activation or running.by_hand:
        return ()
    has_semaphores = any(site.guard is not None for site in running.plan.sites)
    why = "the kernel counts semaphores" if has_semaphores else "no probe has a semaphore"
    return (f"--usdt-file-activation changes nothing: {why}",)


def _output(request: Request, controls: Controls, stack: ExitStack) -> Output:
    """Where results go, as bytes: but for a terminal, a traced program's strings come out as they went in."""
    path = request.output
    if path is not None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise TracerError(f"cannot write {path}: {error.strerror}") from None
        stack.callback(os.close, descriptor)
    elif sys.stdout is None:  # descriptor 1 may be any file by now
        raise TracerError("stdout is closed", "-o FILE writes results to a file")
    else:
        descriptor = sys.stdout.fileno()
    return stack.enter_context(Output(descriptor, path or "stdout", request.buffering, controls, raw=request.raw))


def _watched(
    request: Request, child: Child | None, controls: Controls, stack: ExitStack
) -> tuple[Target, Watched | None]:
    """The process to trace, whose end ends the trace; its descriptor wakes the loop."""
    watched = child if child is not None else request.process
    if watched is None:
        return Target(), None
    target = Target(watched.pid, child.path if child is not None else None, request.follow)
    ended, wake = watched.ended, watched.pidfd
    if request.follow:
        from tracer.kernel.kin.descendants import Family

        family = stack.enter_context(closing(Family(watched.pid, watched.pidfd)))
        wake = family.fd

        def ended() -> bool:
            # In this order: what woke the loop is noted by the first.
            return family.ended() and watched.ended()

    if wake >= 0:
        controls.wake = (*controls.wake, wake)
    return target, Watched(ended) if child is None else Watched(ended, child.start, child.pid)
