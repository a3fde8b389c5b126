"""`--stacks` where it cannot be had."""

from __future__ import annotations

import pytest

from tests.harness.cli import tracer


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-f", "json", "-e", "BEGIN { @[ustack] = count(); }"), "--stacks and -f json cannot be used together"),
        (("-e", "BEGIN { @ = count(); }"), "--stacks: the program has no map of stacks"),
    ],
)
def test_is_refused_with_a_remedy(words: tuple[str, ...], said: str) -> None:
    done = tracer("--stacks", "folded", *words)
    assert done.status == 2 and done.printed == b""
    assert f"{said}; " in done.said
