"""Chooses the legs of a suite that are run, and their order ahead of the tests that look at them. A leg is a case, a
backend and a format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.cli import Done
from tracer.errors import Source, TracerError
from tracer.pipeline import plan

BACKENDS = ("bcc", "ftrace")

KNOWN = os.environ.get("TRACER_TEST_LEGS")
"""A file with what `meeting` comes to, from `python -m tests.vm.meet`: to plan every program once more takes half a
minute in an emulated machine. Who meets no backend has no legs then.
"""


def meets_a_backend(text: str, params: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> bool:
    """Whether a backend has a part in what a program answers: its plan has sites.

    Where there is no plan, or none of its clauses has a place, `pipeline.compile` comes to no choice of a backend: what
    runs is the same whatever --backend says (tests/suite/test_legs.py).
    """
    try:
        return bool(plan(Source(text), params, environment=environment)[0].probes)
    except TracerError:
        return False


def meeting(kind: str, look: Callable[[], Iterable[str]]) -> frozenset[str]:
    """The names of the cases in whose answers a backend has a part: `look()`, unless they are known."""
    return frozenset(look() if KNOWN is None else json.loads(Path(KNOWN).read_text())[kind])


def backends_of(number: int, meets: bool) -> tuple[str, ...]:
    """On which a case is run: on both, or, where no backend has a part in it, with one and the other named by turns."""
    return BACKENDS if meets else () if KNOWN is not None else (BACKENDS[number % len(BACKENDS)],)


def in_formats(formats: Sequence[str], run: Callable[..., Done]) -> dict[str, Done]:
    """The output of one run in several formats: `run` is given the options for all but the first of them."""
    with TemporaryDirectory() as folder:
        files = {format: Path(folder) / format for format in formats[1:]}
        done = run(*(word for format, file in files.items() for word in ("--also", f"{format}:{file}")))
        printed = {format: file.read_bytes() if file.exists() else b"" for format, file in files.items()}
        return {formats[0]: done, **{format: Done(done.status, out, done.said) for format, out in printed.items()}}
