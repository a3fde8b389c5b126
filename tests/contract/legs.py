"""The legs of the contract: cases that meet a backend on both, the others once."""

from __future__ import annotations

from tests.contract.case import Case
from tests.contract.cases import CASES
from tests.contract.conftest import program_of
from tests.harness.legs import backends_of, meeting, meets_a_backend

Leg = tuple[Case, str, str]  # case, backend, format

FORMATS = ("text", "json")

MEET = meeting("contract", lambda: (case.name for case in CASES if meets_a_backend(program_of(case))))
"""The names of those whose programs a backend runs, or refuses."""

LEGS: tuple[Leg, ...] = tuple(
    (case, backend, format)
    for number, case in enumerate(CASES)
    for backend in backends_of(number, case.name in MEET)
    for format in FORMATS
)
