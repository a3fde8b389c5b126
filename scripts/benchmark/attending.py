"""Tracers that go to a process which is there already: the floors, BCC's tools, perf-tools' uprobe.

The target waits until it finds itself probed, hits, and ends; then the tracer is told to end.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmark.children import Child, Ran, child
from scripts.benchmark.model import Cannot
from scripts.benchmark.subjects import Cost, Place, Subjects

_EMPTY = Path(__file__).with_name("empty_program.py")
_LOOK_EVERY_S = 0.01


@dataclass(frozen=True)
class Attended:
    """The results of a run: the target's cost, the tracer's end, and the seconds from its start to its last output."""

    cost: Cost
    tracer: Ran
    to_last_output_s: float


def attend(
    subjects: Subjects,
    target: Sequence[str],
    tracer: Callable[[int], Sequence[str]],
    finish: Callable[[Child], None],
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> Attended:
    """Runs both; `tracer` makes a command for the target's process id, `finish` tells it that all is over.

    Raises Cannot where the tracer ends before its time or attaches nothing.
    """
    subjects.forget()
    end = time.monotonic() + timeout_s
    reading, writing = os.pipe()
    try:
        with (
            child(target, is_endless=True) as traced,
            child(tracer(traced.process.pid), environment, reading, is_endless=True) as running,
        ):
            while not _has_ended(traced):
                if _has_ended(running):
                    raise Cannot(_why(running.wait(1)))
                if time.monotonic() > end:
                    raise Cannot(f"ended after {timeout_s:.0f} s")
                time.sleep(_LOOK_EVERY_S)
            traced.wait(1)
            cost = subjects.cost()
            if cost is None:
                raise Cannot("attached nothing within 60 s")
            finish(running)
            os.close(writing)
            writing = -1
            ran = running.wait(10)
            return Attended(cost, ran, running.last_output - running.started)
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def empty(how: str, subjects: Subjects, place: Place, target: Sequence[str], timeout_s: float) -> Cost:
    """A floor: `how` is "perf", "multi" or "ftrace", see empty_program.py."""
    if os.geteuid() != 0:
        raise Cannot("only root may attach")
    where = (str(subjects.hits), str(place.offset), str(place.semaphore))
    attended = attend(
        subjects,
        target,
        lambda pid: (sys.executable, "-I", "-S", str(_EMPTY), how, *where, str(pid)),
        lambda _: None,  # its standard input closes
        timeout_s,
    )
    if attended.tracer.status != 0:
        raise Cannot(_why(attended.tracer))
    return attended.cost


def _has_ended(running: Child) -> bool:
    return os.waitid(os.P_PID, running.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _why(ran: Ran) -> str:
    if ran.status == -signal.SIGTERM or not (ran.err + ran.out).strip():
        return f"ended with status {ran.status}"
    return ran.complaint or f"ended at once: {(ran.err or ran.out).decode(errors='replace').strip()[:160]}"
