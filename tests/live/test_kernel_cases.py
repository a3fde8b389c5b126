"""What bpftrace answers about the kernel, tracer answers too: `kernel_cases.py`, on both backends."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.live.kernel_cases import CASES, Case, answers, lines

ANSWERS = answers()
WANTED = [case for case in CASES if not case.elsewhere]


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
@pytest.mark.parametrize("case", WANTED, ids=lambda case: case.name)
def test_the_answer_is_that_of_bpftrace(case: Case, backend: str) -> None:
    theirs = ANSWERS[case.name]
    assert not case.differs or (theirs.get("refused") or theirs.get("out")) != list(case.ours), "it differs no more"
    done = tracer("--backend", backend, *case.words())
    if backend == "ftrace" and case.ftrace:
        assert case.ftrace in done.err and "^ error: " in done.err and done.status == 1 and not done.text
    elif "refused" in theirs and not case.ours:
        assert "^ error: " in done.err and done.status in (1, 2) and not done.text
    else:
        assert lines(done.text) == (list(case.ours) or theirs["out"]), done.err
        assert done.status == theirs.get("status", 0)
        assert "error" not in done.err and "lost" not in done.err


def test_every_case_has_a_recorded_answer() -> None:
    assert ANSWERS.keys() == {case.name for case in WANTED}
