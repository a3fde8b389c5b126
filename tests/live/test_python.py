"""CPython's own USDT probes, behind semaphores."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.cli import ROOT, tracer
from tests.live.answers import maps
from tests.live.conftest import need

pytestmark = pytest.mark.live

PYTHON = "/usr/bin/python3.11"

SCRIPT = """
def called_often():
    return 1

def called_rarely():
    return 2

for _ in range(10000):
    called_often()
for _ in range(7):
    called_rarely()
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    need(Path(PYTHON).exists(), PYTHON)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return f"{PYTHON} -I -S {script}"


def test_every_return_of_a_function_is_counted_by_name(command: str, backend: str, clean: None) -> None:
    program = f"usdt:{PYTHON}:python:function__return {{ @[str(arg1)] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", command)
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    counts = maps(done)["@"]
    assert (counts["called_often"], counts["called_rarely"]) == (10000, 7)


def test_entries_are_right_with_line_in_the_same_program(command: str, backend: str, clean: None) -> None:
    program = (
        f"usdt:{PYTHON}:python:function__entry {{ @entry[str(arg1)] = count(); }}"
        f" usdt:{PYTHON}:python:line {{ @line[str(arg1)] = count(); }}"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", command)
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    found = maps(done)
    assert (found["@entry"]["called_often"], found["@entry"]["called_rarely"]) == (10000, 7)
    # One line each; what the line probe gives for it is the function's name.
    assert (found["@line"]["called_often"], found["@line"]["called_rarely"]) == (10000, 7)


def test_entries_alone_are_few_as_this_interpreter_fires_them(command: str, backend: str, clean: None) -> None:
    # What the documentation's page on Python says: without `line` CPython 3.11 runs ordinary calls past the probe.
    program = f"usdt:{PYTHON}:python:function__entry {{ @[str(arg1)] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", command)
    assert done.status == 0
    assert maps(done)["@"].get("called_often", 0) < 10000


def row(tool: str) -> str:
    """The line of the page for those who come from another tracer that stands beside a tool."""
    page = (ROOT / "docs/peers.md").read_text()
    found = re.search(rf"(?m)^\| `{tool}` \| `([^`]+)`", page)
    assert found is not None
    return found[1]


def test_the_line_in_place_of_ucalls_counts_every_call(command: str, backend: str, clean: None) -> None:
    done = tracer("--backend", backend, "-f", "json", "-e", row("ucalls python PID"), "-c", command)
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    calls = {key.rpartition(",")[2]: count for key, count in maps(done)["@"].items() if "script.py" in key}
    assert calls == {"<module>": 1, "called_often": 10000, "called_rarely": 7}


def test_the_line_in_place_of_uflow_shows_every_call_and_return(command: str, backend: str, clean: None) -> None:
    done = tracer("--backend", backend, "-e", row("uflow python PID"), "-c", command)
    assert (done.status, done.err) == (0, "Attached 3 probes\n")
    shown = Counter(re.findall(r"(?m)^\d+ (-> called_\w+|<- called_\w+)$", done.text))
    assert shown == dict.fromkeys(("-> called_often", "<- called_often"), 10000) | dict.fromkeys(
        ("-> called_rarely", "<- called_rarely"), 7
    )
