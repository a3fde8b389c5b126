"""Random programs answer alike: the tree walk, the steps as Python, and both backends on the real target.

A sample: `TRACER_FUZZ=200` runs so many programs on each, `TRACER_FUZZ_SEED=N` begins at that seed, and
`scripts/attack/fuzz` does both (docs/reliability.md).
"""

from __future__ import annotations

import os

import pytest

from tests.contract.fuzz.answers import TOO_MUCH, answers
from tests.contract.fuzz.programs import valid_program

COUNT = int(os.environ.get("TRACER_FUZZ", "0"))
FIRST = int(os.environ.get("TRACER_FUZZ_SEED", "5000"))


def seeds(usual: int) -> range:
    """The seeds of a test that runs `usual` programs where nothing else is asked for."""
    return range(FIRST, FIRST + (COUNT or usual))


@pytest.mark.parametrize("seed", seeds(25))
def test_python_answers_as_the_tree_walk_does(seed: int) -> None:
    text = valid_program(seed, 5)
    found = answers(text, ("reference", "python"))
    assert found["python"] == found["reference"], text


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(3))
def test_both_backends_answer_as_the_tree_walk_does(seed: int) -> None:
    text = valid_program(seed, 3)
    found = answers(text, ("reference", "bcc", "ftrace"))
    assert found["ftrace"] == found["reference"], text
    if TOO_MUCH not in found["bcc"].said:
        assert found["bcc"] == found["reference"], text
