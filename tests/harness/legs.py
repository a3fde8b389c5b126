"""Which legs of a suite are run, and in which order ahead of the tests that look at them. A leg is a case, a backend
and a format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tracer.errors import Source, TracerError
from tracer.pipeline import plan

_Case = TypeVar("_Case")

BACKENDS = ("bcc", "ftrace")
_LATER = 10

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


def in_order(legs: Sequence[tuple[_Case, str, str]]) -> list[tuple[_Case, str, str]]:
    """Legs (case, backend, format) in the order of their tests, but JSON on bcc some places later.

    Text and JSON have one BPF object: beside each other both would compile it, and so the second finds it in the cache.
    """
    places = {at: at + (_LATER if leg[1:] == ("bcc", "json") else 0) for at, leg in enumerate(legs)}
    return [legs[at] for at in sorted(places, key=lambda at: places[at])]
