"""Starts the command lines of the suite ahead of the tests that look at them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.conftest import here  # noqa: F401 - a fixture
from tests.harness.warm import Warms
from tests.suite.legs import Leg
from tests.suite.runs import Runs


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, warms: Warms) -> Iterator[Runs]:
    legs: list[Leg] = []
    for item in request.session.items:
        call = getattr(item, "callspec", None)
        if call is not None and "suite_leg" in call.params:
            legs.append(call.params["suite_leg"])
    runs = Runs(legs, warms)
    yield runs
    runs.close()
