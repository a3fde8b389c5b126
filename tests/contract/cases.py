"""The whole suite: every case by name."""

from __future__ import annotations

from tests.contract import (
    cases_aggregations,
    cases_builtins,
    cases_found,
    cases_kernel,
    cases_language,
    cases_maps,
    cases_notes,
    cases_probes,
    cases_structs,
    cases_values,
    cases_variables,
    cases_walks,
)
from tests.contract.case import Case

CASES: tuple[Case, ...] = (
    *cases_probes.CASES,
    *cases_maps.CASES,
    *cases_walks.CASES,
    *cases_aggregations.CASES,
    *cases_values.CASES,
    *cases_variables.CASES,
    *cases_structs.CASES,
    *cases_notes.CASES,
    *cases_builtins.CASES,
    *cases_found.CASES,
    *cases_kernel.CASES,
    *cases_language.CASES,
)

if len({case.name for case in CASES}) != len(CASES):
    raise ValueError("two cases of one name")


def part_of(index: int, parts: int) -> tuple[Case, ...]:
    """Every `parts`th case, from the one with that index on."""
    return CASES[index::parts]
