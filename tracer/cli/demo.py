"""`tracer demo`: three questions about a small real program, on each backend that works here, and a comparison."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tracer
from tracer.cli.info import examine
from tracer.errors import TracerError

if TYPE_CHECKING:
    from tracer.demo.program import Demonstration, Question

EXAMPLE = "sudo tracer demo"


def command() -> int:
    """Trace a small program that comes with tracer.

    It shows a count by key, a histogram and a latency on each backend that works here, and compares them.
    """
    from tracer.demo.program import demonstration

    host = examine()
    usable = [name for name, state in host.backends.items() if state.usable]
    for name, state in host.backends.items():
        if not state.usable:
            hint = f" ({state.remedy})" if state.remedy else ""
            print(f"tracer: {name} cannot be used here: {state.reason}{hint}", file=sys.stderr)
    if not usable:
        raise TracerError("the demo cannot run: nothing can be traced here", "see tracer info; tracing needs root")
    shown = demonstration()
    print(f"Tracing {shown.what}")
    verdicts = [_ask(shown, number, question, usable) for number, question in enumerate(shown.questions, 1)]
    print(f"\n{_comparison(usable, verdicts)}")
    return 0 if all(verdict is not False for verdict in verdicts) else 1


def _ask(shown: Demonstration, number: int, question: Question, backends: list[str]) -> bool | None:
    """Prints one question and its answers; whether they are the same bytes, None where they need not be."""
    print(f"\n{number}. {question.asks}\n   tracer -e '{question.program}' -c '{shown.command}'", flush=True)
    started = {backend: _start(shown, question, backend) for backend in backends}
    answers = {backend: _answer(backend, process) for backend, process in started.items()}
    first = answers[backends[0]]
    for backend, answer in answers.items():
        if backend != backends[0] and answer == first:
            print(f"-- {backend}: the same {len(answer)} bytes")
        else:
            print(f"-- {backend}:\n{answer.decode(errors='replace').strip()}")
    return all(answer == first for answer in answers.values()) if question.repeatable else None


def _start(shown: Demonstration, question: Question, backend: str) -> subprocess.Popen[bytes]:
    """The command itself, run as a user would run it; the backends trace at the same time, each its own program."""
    return subprocess.Popen(
        [sys.executable, "-m", "tracer", "-q", "--backend", backend, "-e", question.program, "-c", shown.command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(tracer.__file__).parent.parent,  # so that -m finds this very tracer, installed or not
    )


def _answer(backend: str, process: subprocess.Popen[bytes]) -> bytes:
    """Runs the demonstration on a backend; returns what tracer printed. Raises `TracerError` where it failed."""
    out, err = process.communicate()
    said = err.decode(errors="replace")
    if process.returncode != 0:
        reason = said.strip().removeprefix("tracer: error: ") or f"status {process.returncode}"
        raise TracerError(f"{backend} failed: {reason}")
    sys.stderr.write(said)
    return out


def _comparison(backends: list[str], verdicts: list[bool | None]) -> str:
    compared = [verdict for verdict in verdicts if verdict is not None]
    if len(backends) < 2:
        return f"Compared: nothing, since {backends[0]} alone can be used here."
    names = " and ".join(backends)
    same = sum(compared)
    if same == len(compared):
        return (
            f"Compared: {names} gave the same bytes for {same} of {len(compared)} questions whose answer does not "
            "depend on time; latencies are measured, so they differ from run to run."
        )
    return f"Compared: {names} differ in {len(compared) - same} of {len(compared)} answers. This is a bug in tracer."
