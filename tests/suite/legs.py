"""The legs of the suite: cases that meet a backend on both, the others once."""

from __future__ import annotations

from tests.harness.legs import backends_of, meeting, meets_a_backend
from tests.suite.case import TARGET, Case, cases
from tests.targets.build import build

Leg = tuple[Case, str, str]  # case, backend, format

CASES = tuple(case for case in cases() if case.recorded)

MEET = meeting(
    "suite",
    lambda: (str(case) for case in CASES if meets_a_backend(case.located(build(TARGET)), case.params, case.settings)),
)
"""The names of those whose programs a backend runs, or refuses."""

LEGS: tuple[Leg, ...] = tuple(
    (case, backend, format)
    for number, case in enumerate(CASES)
    for backend in backends_of(number, str(case) in MEET)
    for format in case.formats
)
