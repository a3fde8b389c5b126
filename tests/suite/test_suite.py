"""Each case through the command line, on both backends where it meets one: what bpftrace 0.27.1 answers, to the byte,
or a difference that is meant and has its reason. A gap that is still open is marked, and fails as soon as it is closed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.contract.older import Here, is_older
from tests.harness.kernel import TRACEFS
from tests.live.conftest import need
from tests.suite.legs import LEGS, Leg
from tests.suite.runs import Runs, fault

pytestmark = pytest.mark.live


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
