"""Each case through the command line, on both backends: what bpftrace 0.27.1 answers, to the byte, or a difference
that is meant and has its reason. A gap that is still open is marked, and fails as soon as it is closed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.contract.older import Here, is_older
from tests.harness.kernel import TRACEFS
from tests.live.conftest import need
from tests.suite.case import BACKENDS, cases
from tests.suite.runs import Leg, Runs, fault

pytestmark = pytest.mark.live

CASES = cases()

LEGS: tuple[Leg, ...] = tuple(
    (case, backend, format) for case in CASES if case.recorded for backend in BACKENDS for format in case.formats
)


@pytest.fixture(autouse=True, scope="session")
def _root() -> None:
    need(os.geteuid() == 0, "root")


@pytest.mark.parametrize("suite_leg", LEGS, ids=lambda leg: f"{leg[0]}-{leg[1]}-{leg[2]}")
def test_answers_as_recorded(
    suite_leg: Leg, runs: Runs, here: Here, record_property: Callable[[str, object], None]
) -> None:
    case, backend, format = suite_leg
    need(backend != "ftrace" or TRACEFS.is_mount(), "tracefs")
    done = runs(case, backend, format)
    if is_older(done, here):
        record_property("excepted", True)
        return
    said = fault(case, backend, format, done)
    gap = case.gaps.get((backend, format))
    if gap is not None:
        if not said:
            pytest.fail(f"this gap is closed: take its marker out (record.py --closed): {gap}")
        pytest.xfail(f"gap: {gap}")
    assert not said, f"{case.program}\n{said}"
