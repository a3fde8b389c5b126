"""The diffs of CONTRIBUTING.md apply to the tree as it is, and what they make of a file is Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIFFS = re.findall(r"### ([^\n]+)\n.*?```diff\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)


def test_there_are_four() -> None:
    assert len(DIFFS) == 4


@pytest.mark.parametrize(("change", "diff"), DIFFS, ids=[change for change, _ in DIFFS])
def test_a_diff_applies(change: str, diff: str) -> None:
    for part in re.split(r"(?m)^\+\+\+ ", diff)[1:]:
        name, _, hunks = part.partition("\n")
        path = ROOT / name
        text = path.read_text("utf-8") if path.exists() else ""
        for hunk in re.split(r"(?m)^@@\n", hunks)[1:]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] != "+")
            new = "".join(line[1:] for line in lines if line[0] != "-")
            assert not old or f"\n{text}".count(f"\n{old}") == 1, f"{name} has these lines not once: {old}"
            text = text.replace(old, new, 1) if old else text + new
        ast.parse(text)
