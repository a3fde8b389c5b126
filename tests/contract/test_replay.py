"""The same answer: every case as Python, fed with the hits that the target makes by its arithmetic."""

from __future__ import annotations

import pytest

from tests.contract.case import Case
from tests.contract.cases import CASES
from tests.contract.conftest import program_of, settled
from tests.contract.replay import replay
from tests.harness.cli import without_blanks
from tracer.results.events import Loss


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.target in ("depot", None) and case.replayed], ids=str
)
def test_answers_as_expected(case: Case, format: str) -> None:
    answer = replay(program_of(case), format, case.rounds)
    wanted = case.out.text if format == "text" else case.attached() + b"".join(case.out.json)
    assert settled(case, without_blanks(answer.out)).decode() == wanted.decode()
    assert answer.outcome.loss == Loss(
        unreadable=case.unreadable, truncated=case.truncated, loops=case.loops, divisions=case.divisions
    )
    assert answer.outcome.code == case.status
