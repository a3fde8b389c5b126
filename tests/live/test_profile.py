"""`tracer profile`: the shares of functions are those of the processor's time that they had."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer


@pytest.fixture
def path(place: Callable[[str], Path]) -> Path:
    return place("shares")


def test_shares_are_those_of_the_time_on_the_processor(backend: str, path: Path) -> None:
    """Within three standard deviations of what the program itself measured."""
    done = tracer("profile", "-q", "--backend", backend, "-c", str(path))
    assert done.status == 0
    lines = done.text.splitlines()
    much, little = next(map(int, line.split()) for line in lines if re.fullmatch(r"\d+ \d+", line))
    rows = {words[4]: words for line in lines if len(words := line.split()) == 6}
    samples = int(next(line.split()[0] for line in lines if line.endswith("  samples")))
    share = much / (much + little)
    assert abs(int(rows["much"][0]) - samples * share) <= 3 * (samples * share * (1 - share)) ** 0.5
    assert abs(samples - 99 * (much + little) / 1e9) <= 0.2 * samples
    assert rows["much"][2] == rows["much"][0] and rows["much"][5] == "shares"
    assert re.search(r"^ +0 +\d+ +\d+\.\d%  main  shares$", done.text, re.M)


def test_the_stacks_are_a_flame_graph_where_the_file_is_one(backend: str, path: Path, tmp_path: Path) -> None:
    page = tmp_path / "cpu.html"
    done = tracer("profile", "-q", "--backend", backend, "-c", str(path), "-o", str(page))
    assert done.status == 0 and re.fullmatch(r"\d+ \d+\n", done.text)
    assert all(name in page.read_text() for name in ("much", "little", "main"))


def test_functions_of_python_are_there_where_their_frames_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def spends():\n    sum(range(20000000))\nspends()\n")
    command = ("-c", f"{sys.executable} {tmp_path}/app.py")
    done = tracer("profile", "-q", "--python", "--backend", "bcc", *command)
    assert re.search(r"  app\.py:spends  app\.py$", done.text, re.M)
    refused = tracer("profile", "--python", "--backend", "ftrace", *command)
    assert (refused.status, refused.said.splitlines()[-1].strip()) == (
        1,
        "^^^^^^^^^^^^^^ error: ustack(python) is not available with ftrace: a sample does not hold the interpreter's"
        " memory, where the frames are; --backend bcc can",
    )
