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


def test_what_is_added_to_the_environment_is_of_that_run_alone() -> None:
    warm = Warm()
    words = ("-q", "-e", "BEGIN { }", "-c", "printenv TRACER_TEST_WORD")
    try:
        found = [warm.tracer(*words, env=env).text for env in ({"TRACER_TEST_WORD": "glue"}, None)]
    finally:
        warm.close()
    assert found == ["glue\n", ""]
