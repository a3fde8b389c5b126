"""Tracing through the BCC backend alone: no command line, no renderer, so that a test can look at single parts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.singly import singly
from tracer import pipeline
from tracer.backends import ALONE
from tracer.backends.bcc import BccBackend
from tracer.backends.bcc.session import BccSession
from tracer.errors import Source
from tracer.kinds.site import EVERY_PROCESS, Target
from tracer.results.events import Event, Loss, PrintfEvent
from tracer.results.values import Key, MapValue


@dataclass(slots=True)
class Traced:
    """What a trace gave."""

    maps: dict[str, dict[Key, MapValue]]
    events: list[Event]
    loss: Loss
    errors: str = ""
    printed: list[tuple[object, ...]] = field(default_factory=list)


def open_session(program: str, target: Target = EVERY_PROCESS) -> BccSession:
    """A session whose probes are not attached yet."""
    plan, _ = pipeline.plan(Source(program), (), target)
    backend = BccBackend()
    return backend.open(backend.compile(plan), target, ALONE)


def trace(program: str, command: Sequence[str | Path]) -> Traced:
    """Runs a command under a program that has probe clauses only."""
    with open_session(program) as session:
        session.attach()
        child = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
        events: list[Event] = []
        while child.poll() is None:
            events += singly(session.events(0.01))
        session.detach()
        events += singly(session.drain())
        assert child.stderr is not None
        with child.stderr:
            errors = child.stderr.read()
        names = session.plan.program.maps
        return Traced(
            {name: dict(session.maps.snapshot(name).items) for name in names},
            events,
            session.loss(),
            errors,
            [event.args for event in events if isinstance(event, PrintfEvent)],
        )


def build_hits(folder: Path) -> Path:
    """hits.c as a program of this run's own."""
    program = folder / "hits"
    source = Path(__file__).with_name("hits.c")
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", str(program), str(source)], check=True)
    return program


def edge(i: int) -> int:
    """The value that hits.c hands over in round i, as a signed 64-bit integer."""
    value = ((1 << (i // 5 % 64)) + (i % 5 - 2)) & (2**64 - 1)
    return value - 2**64 if value >> 63 else value
