"""`tracer flow`: the calls of a program inside each other, as the program itself has them, on both backends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.conftest import need
from tests.targets.build import build_go

Place = Callable[[str], Path]
Lines = dict[str, list[str]]

_TIMES = re.compile(r" {1,2}\d[\d.]* (?:ns|us|ms|s)(?:, self [\d.]+ \w+)?$")
_OWN = re.compile(r"own (\d+)  (.*)")
_SHOWN = re.compile(r" *(\d+)  (.*)")


def by_thread(pattern: re.Pattern[str], text: str) -> Lines:
    lines: Lines = {}
    for line in text.splitlines():
        if (told := pattern.fullmatch(line)) is not None and not told[2].startswith("#"):
            lines.setdefault(told[1], []).append(_TIMES.sub("", told[2]))
    return lines


@pytest.mark.parametrize("seed", [1, 2])
def test_a_flow_is_the_tree_of_calls_that_the_program_prints(
    backend: str, seed: int, place: Place, tmp_path: Path
) -> None:
    """Threads, recursion, exceptions, longjmp() and tail calls, call by call."""
    path, shown = place("flows"), tmp_path / "shown"
    words = ("flow", f"{path}:f_root", "--only", "f_*", "-q", "--backend", backend, "-o", str(shown))
    done = tracer(*words, "-c", f"{path} {seed}")
    assert (done.status, done.said) == (0, "")
    own = by_thread(_OWN, done.text)
    assert len(own) == 3 and sum(map(len, own.values())) > 200
    assert by_thread(_SHOWN, shown.read_text()) == own


def flows_of(lines: list[str], first: str) -> list[str]:
    """Of the lines of a thread's flows those of the outermost calls that begin so, as if nothing was around them."""
    chosen: list[str] = []
    depth = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if depth is None and line.lstrip().startswith(first):
            depth = indent
        if depth is not None:
            chosen.append(line[depth:])
            if indent == depth and not line.endswith("{"):
                depth = None
    return chosen


def test_a_filter_chooses_flows_further_in_and_what_was_left_lets_no_other_in(
    backend: str, place: Place, tmp_path: Path
) -> None:
    """A call of the function that an exception or longjmp() has left is no longer around those further in."""
    path, shown = place("flows"), tmp_path / "shown"
    for value in (7, 2, -8):
        words = ("flow", f"{path}:f_root", "--only", "f_*", "-q", "--backend", backend, "-o", str(shown))
        done = tracer(*words, "--filter", f"(int64)arg0 == {value}", "-c", f"{path} 4")
        assert (done.status, done.said) == (0, "")
        own = {thread: flows_of(lines, f"f_root(n={value})") for thread, lines in by_thread(_OWN, done.text).items()}
        assert sum(map(len, own.values())) >= 3
        assert by_thread(_SHOWN, shown.read_text()) == {thread: lines for thread, lines in own.items() if lines}


def test_a_document_of_chrome_has_every_call(backend: str, place: Place, tmp_path: Path) -> None:
    path, shown = place("flows"), tmp_path / "flow.json"
    words = ("flow", f"{path}:f_root", "--only", "f_*", "-q", "--backend", backend, "--format", "chrome")
    done = tracer(*words, "-o", str(shown), "-c", f"{path} 3")
    assert (done.status, done.said) == (0, "")
    calls = [event for event in json.loads(shown.read_text())["traceEvents"] if event["ph"] == "X"]
    own = [line.strip() for lines in by_thread(_OWN, done.text).values() for line in lines]
    names = Counter(line.partition("(")[0] for line in own if not line.startswith("}"))
    assert Counter(event["name"] for event in calls) == names
    roots = [event for event in calls if event["name"] == "f_root"]
    assert len(roots) == names["f_root"] > 12
    for event in calls:
        around = [root for root in roots if root["tid"] == event["tid"] and root["ts"] <= event["ts"]]
        assert any(event["ts"] + event["dur"] <= root["ts"] + root["dur"] + 0.001 for root in around)


def test_signals_and_fibers_lose_no_call(backend: str, place: Place, tmp_path: Path) -> None:
    """Each call that returned has its own result; one that waits on another stack is told to be gone back to."""
    path, shown = place("call-trees"), tmp_path / "shown"
    words = ("flow", f"{path}:work", "--only", "work", "--with", f"{path}:node", "--with", f"{path}:other")
    done = tracer(*words, "-q", "--backend", backend, "-o", str(shown), "-c", f"{path} 1 6")
    assert (done.status, done.said) == (0, "")
    own = Counter(re.findall(r"^own \d+ (\d+) ", done.text, re.M))
    (returned, left), *_ = re.findall(r"^all (\d+) (\d+)$", done.text, re.M)
    text = shown.read_text()
    results = Counter(re.findall(r"(?:\)|}) = (\d+)  ", text))
    again = text.count(", gone back to")
    assert again > 0 and results == own and sum(own.values()) == int(returned)
    assert len(re.findall(r"left by|no return seen", text)) == int(left) + again


def test_a_process_that_runs_is_attached_to(backend: str, place: Place) -> None:
    """What is under way as the trace begins is not shown; what is under way at its end is."""
    path = place("flows")
    with subprocess.Popen([path, "1", "forever"]) as process:
        try:
            done = tracer("flow", f"{path}:calm", "-p", str(process.pid), "-d", "1s", "--backend", backend)
        finally:
            process.kill()
    assert done.status == 0
    name, *lines = [_TIMES.sub("", line.removeprefix(f"{process.pid:7}  ")) for line in done.text.splitlines()]
    assert name == f"# flows, process {process.pid}"
    number = int(lines[0].removeprefix("calm(n=").removesuffix(") {"))
    whole = sum(line.startswith("calm(") for line in lines)
    expected = [
        line for n in range(number, number + whole)
        for line in (f"calm(n={n}) {{", f"  part(n={n}) = {2 * n}", f"}} = {2 * n + 1}")
    ]  # fmt: skip
    assert whole > 10
    assert lines in (expected, [*expected[:-1], "} under way for"], [*expected[:-2], "} under way for"])
    head, *_ = done.said.splitlines()
    assert re.fullmatch(
        r"tracer: the flow of calm: 2 functions at \d places; each call of one takes [\d.]+ us more, [\d.]+ of them"
        r" where it begins", head,
    )  # fmt: skip


def test_goroutines_have_a_flow_each(backend: str, place: Place, tmp_path: Path) -> None:
    """Though they change threads, their stacks move, and what panics has left does not return."""
    need(shutil.which("go"), "Go")
    path, shown = Path(shutil.copy(build_go("flows"), tmp_path / "flows-go")), tmp_path / "shown"
    words = ("flow", f"{path}:main.f_root", "--only", "main.f_*", "-q", "--backend", backend, "-o", str(shown))
    done = tracer(*words, "-c", f"{path} 1")
    assert (done.status, done.said) == (0, "")
    own, traced = by_thread(_OWN, done.text), by_thread(_SHOWN, shown.read_text())
    assert sum(map(len, own.values())) > 400 and any("no return seen" in line for line in own["0"] + own["1"])
    assert sorted(traced.values()) == sorted(own.values())


def test_functions_of_one_name_are_told_apart(backend: str, place: Place) -> None:
    path = place("twins")

    def flow(name: str) -> list[str]:
        done = tracer("flow", f"{path}:{name}", "-q", "--backend", backend, "-c", str(path))
        assert (done.status, done.said) == (0, "")
        (lines,) = by_thread(_SHOWN, done.text).values()
        return lines

    assert flow("both") == [
        "both(n=3) {", "  first(n=3) {", "    step@twins.c:5(n=3) = 4", "    step@twins.c:5(n=4) = 5", "  } = 9",
        "  second(n=3) {", "    step@twins_other.c:4(wide=3, more=5) = -8", "  } = -8", "} = 1",
    ]  # fmt: skip
    assert flow("first") == ["first(n=3) {", "  step(n=3) = 4", "  step(n=4) = 5", "} = 9"]
