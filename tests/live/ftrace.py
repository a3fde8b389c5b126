"""Sessions of the ftrace backend inside the test's own process, and targets compiled from a few lines of C."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.harness.cli import read_line, target, tell
from tests.singly import singly
from tracer import pipeline
from tracer.backends import ALONE
from tracer.backends.ftrace.program import FtraceProgram
from tracer.backends.ftrace.session import FtraceSession
from tracer.errors import Source
from tracer.kinds.site import Target
from tracer.results.events import Event
from tracer.results.values import Key, MapValue


def compiled_c(path: Path, source: str, *flags: str) -> Path:
    """Compiles a program to `path`; `PROBE` is an attribute for functions whose entry is a nop."""
    head = "#define PROBE __attribute__((noinline, noclone, patchable_function_entry(1)))\n"
    subprocess.run(["gcc", "-O2", *flags, "-x", "c", "-", "-o", path], input=head + source, text=True, check=True)
    return path


def compiled(text: str, *pids: int) -> FtraceProgram:
    plan, _ = pipeline.plan(Source(text), (), Target(pids))
    program = pipeline.compile(plan, "ftrace").program
    assert isinstance(program, FtraceProgram)
    return program


@contextmanager
def session(text: str, *pids: int) -> Iterator[FtraceSession]:
    """An attached session."""
    with FtraceSession(compiled(text, *pids), Target(pids), ALONE) as opened:
        opened.attach()
        yield opened


def finish(opened: FtraceSession) -> list[Event]:
    """Detaches; what was on its way."""
    opened.detach()
    return list(singly(opened.drain()))


def items(opened: FtraceSession, name: str = "@") -> dict[Key, MapValue]:
    return dict(opened.maps.snapshot(name).items)


@contextmanager
def gated(path: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], None]]]:
    """A target that says a line, waits for one, and says another at its end; with the function that lets it go and
    waits for its end."""
    with target(path, *arguments) as process:
        read_line(process)

        def go() -> None:
            tell(process)
            read_line(process)

        yield process, go
