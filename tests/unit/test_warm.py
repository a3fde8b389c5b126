from __future__ import annotations

import pytest

from tests.harness.cli import tracer
from tests.harness.warm import Warm


@pytest.mark.parametrize(
    "words", [("--version",), ("-e", 'BEGIN { printf("%d\\n", $1); exit(3); }', "7"), ("run", "--nonsense"), ("-d",)]
)
def test_a_warm_run_answers_as_a_run_of_its_own(words: tuple[str, ...]) -> None:
    warm = Warm()
    try:
        assert warm.tracer(*words) == warm.tracer(*words) == tracer(*words)
    finally:
        warm.close()
