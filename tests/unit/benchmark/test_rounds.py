from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from functools import partial

import pytest

from scripts.benchmark import children
from scripts.benchmark.children import child, run
from scripts.benchmark.model import Cannot, Cell, Reading, Row, Work
from scripts.benchmark.rounds import run_rounds
from scripts.benchmark.together import run_and_weigh


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "_GRACE_S", 0.5)


def silent(_text: str) -> None: ...


def works(log: list[str], *, fails: Callable[[int], bool] = lambda _: False) -> list[Work]:
    def ask(row: str, who: str) -> Reading:
        log.append(f"{row}{who}")
        if who == "c" and fails(len(log)):
            raise Cannot("it will not")
        return Reading({row: float(len(log))}, ("odd",) if who == "b" else ())

    return [
        Work("part", (Row(row, row, "ns"),), {who: partial(ask, row, who) for who in "abc"}, {"d": "never could"})
        for row in "xy"
    ]


def test_in_each_round_everybody_does_everything_once_in_another_order() -> None:
    log: list[str] = []
    run_rounds(works(log), "abcd", 3, silent)
    assert log == [
        "xa",
        "xb",
        "xc",
        "ya",
        "yb",
        "yc",
        "xb",
        "xc",
        "xa",
        "yb",
        "yc",
        "ya",
        "xc",
        "xa",
        "xb",
        "yc",
        "ya",
        "yb",
    ]


def test_figures_stand_at_their_rounds_with_their_faults_and_reasons() -> None:
    log: list[str] = []
    results = run_rounds(works(log), "abcd", 2, silent)
    assert results.cell("x", "a") == Cell((1.0, 9.0))
    assert results.cell("x", "b") == Cell((2.0, 7.0), ("odd", "odd"))
    assert results.cell("x", "d") == Cell(absent="never could")
    assert results.cell("z", "a") == Cell()


def test_one_that_cannot_is_not_asked_again_for_that_work() -> None:
    log: list[str] = []
    results = run_rounds(works(log, fails=lambda asked: asked == 3), "abcd", 2, silent)
    assert log.count("xc") == 1
    assert log.count("yc") == 2
    assert results.cell("x", "c") == Cell(absent="it will not")


def test_one_that_fails_later_keeps_its_figures() -> None:
    log: list[str] = []
    results = run_rounds(works(log, fails=lambda asked: asked > 6), "abcd", 2, silent)
    assert results.cell("x", "c") == Cell((3.0,), absent="it will not")


def test_caches_are_filled_once_and_unmeasured() -> None:
    log: list[str] = []
    work = Work(
        "part",
        (Row("x", "x", "ns"),),
        {"a": lambda: log.append("run") or Reading({"x": 1.0})},  # type: ignore[func-returns-value]
        warm={"a": lambda: log.append("warm")},
    )
    assert run_rounds([work], ["a"], 2, silent).cell("x", "a").figures == (1.0, 1.0)
    assert log == ["warm", "run", "run"]


def test_a_run_gives_its_outputs_and_its_status() -> None:
    ran = run(["sh", "-c", "echo out; echo Error: no >&2; exit 3"], 20)
    assert (ran.status, ran.out, ran.err, ran.timed_out) == (3, b"out\n", b"Error: no\n", False)
    assert ran.complaint == "exit status 3: Error: no"
    assert run(["true"], 20).complaint is None


def test_one_that_hangs_is_ended_with_all_that_it_started() -> None:
    started = time.monotonic()
    ran = run(["sh", "-c", "sleep 1000 & sleep 1000"], 0.3)
    assert ran.timed_out
    assert ran.status == -signal.SIGTERM
    assert ran.complaint == "ended after 0 s"
    assert time.monotonic() - started < 20


def test_one_that_is_deaf_to_the_first_signal_is_ended_by_the_next() -> None:
    ran = run(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], 0.3)
    assert (ran.timed_out, ran.status) == (True, -signal.SIGKILL)


def test_what_keeps_the_pipe_open_after_the_end_does_not_hold_us_up() -> None:
    ran = run(["sh", "-c", "echo done; sleep 1000 &"], 20)
    assert (ran.status, ran.out, ran.timed_out) == (0, b"done\n", False)


def test_one_that_is_not_there_cannot() -> None:
    with pytest.raises(Cannot, match=r"^/no/such cannot be started: No such file or directory$"):
        run(["/no/such"], 20)


def test_a_block_that_is_left_ends_its_child() -> None:
    with pytest.raises(KeyboardInterrupt), child(["sleep", "1000"]) as running:
        raise KeyboardInterrupt
    assert running.process.returncode == -signal.SIGTERM


def test_the_memory_of_one_process_and_of_all_does_not_depend_on_ours() -> None:
    """Two interpreters that fill 30 MB each, one the other's child; and we hold more."""
    ours = bytearray(200 << 20)
    fill = "x = bytearray(30 << 20); import time; time.sleep(1)"
    python = [sys.executable, "-I", "-S", "-c"]
    both = f"import subprocess; p = subprocess.Popen({[*python, fill]!r}); {fill}; p.wait()"
    ran, largest_kb, together_kb = run_and_weigh([*python, both], 30, {})
    assert (ran.status, ran.out, len(ours)) == (0, b"", 200 << 20)
    assert 30 << 10 < largest_kb < 60 << 10 < together_kb < 2 * largest_kb


def test_the_status_of_what_is_weighed_is_its_own() -> None:
    ran, _, _ = run_and_weigh(["sh", "-c", "exit 3"], 30, {})
    assert ran.status == 3
