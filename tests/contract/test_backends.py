"""The same answer: every case through the command line on both backends, text and JSON, equal to the last byte."""

from __future__ import annotations

import pytest

from tests.contract.case import Case
from tests.contract.cases import CASES
from tests.contract.conftest import Answers, program_of, settled
from tests.contract.refusals import REFUSALS

pytestmark = pytest.mark.live


def said_about_losses(case: Case) -> str:
    """The lines that end a run whose answer is incomplete."""
    return (
        ("tracer: left out 1 hit whose argument or string could not be read\n" if case.unreadable else "")
        + ("tracer: cut 1 string; raise max_strlen\n" if case.truncated else "")
        + ("tracer: cut 1 loop at its limit\n" if case.loops else "")
    )


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_answers_as_expected(case: Case, backend: str, format: str, answers: Answers) -> None:
    done = answers(case, backend, format)
    if backend in case.refused:
        program = program_of(case)
        expected = REFUSALS[case.refused[backend]]
        assert (done.status, done.out, done.err.removeprefix(program + "\n").strip()) == (1, b"", expected)
        return
    wanted = case.out.text if format == "text" else case.attached() + b"".join(case.out.json)
    assert settled(case, done.out).decode() == wanted.decode(), done.err
    probes = f"{case.probes} probe" + ("" if case.probes == 1 else "s")
    assert done.err == f"Attached {probes}\n" + said_about_losses(case)
    assert done.status == case.status
