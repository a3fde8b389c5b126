"""The examples of docs/library.md: each runs as it stands there, on both backends, and mypy accepts it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, PATIENCE_S, ROOT, environment
from tracer import __all__ as exported

PAGE = (ROOT / "docs/library.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.mark.live
@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_does_what_it_says(number: int, backend: str) -> None:
    text = EXAMPLES[number].replace("BACKEND", repr(backend))
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment(), capture_output=True, text=True, timeout=PATIENCE_S * PATIENCE,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_the_examples_are_typed(tmp_path: Path) -> None:
    for number, text in enumerate(EXAMPLES):
        (tmp_path / f"example{number}.py").write_text("BACKEND = None\n" + text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--allow-redefinition", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_page_names_what_can_be_imported() -> None:
    of_errors = {"Source", "Span", "Diagnostic", "Probe"}  # their objects are met, their names are for annotations
    assert [name for name in exported if name not in PAGE and name not in of_errors] == []
