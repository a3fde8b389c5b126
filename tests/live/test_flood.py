"""Many hits while others want the CPU: what empties the rings gets it first, and never for long."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.harness.cli import Done, target, tracer, tracing, until
from tests.live.answers import maps
from tests.live.bcc import build_hits

pytestmark = [pytest.mark.live, pytest.mark.clock, pytest.mark.timeout(300)]

RUNS, WHOLE = 8, 3
"""So many of so many runs must have all hits: others may take the CPU away for longer than any ring lasts."""

SUMS = "{ @n = count(); @s[str(arg1)] = sum(arg0); @h = hist(arg0); }"
LINES = r'{ printf("%d %s\n", arg0, str(arg1)); }'
SAMPLED = "{ @[arg0 & 3, str(arg1)] = count(); }"


@pytest.fixture(scope="module")
def hits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hits(tmp_path_factory.mktemp("flood"))


@contextmanager
def busy(loops: int = 2) -> Iterator[None]:
    """Beside programs that never sleep."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def told(done: Done) -> int:
    found = re.search(r"(\d+) events lost", done.err)
    return int(found[1]) if found else 0


def counted(done: Done) -> int:
    return int(maps(done).get("@n", 0))


def printed(done: Done) -> int:
    return done.out.count(b'"printf"')


@pytest.mark.parametrize(("body", "number", "there"), [(SUMS, 600_000, counted), (LINES, 300_000, printed)])
def test_a_flood_beside_busy_loops_is_whole(
    backend: str, body: str, number: int, there: Callable[[Done], int], hits: Path, clean: None
) -> None:
    program = f"usdt:{hits}:hits:flood {body}"
    lost: list[int] = []
    with busy():
        while len(lost) < RUNS and lost.count(0) < WHOLE:
            done = tracer(
                "--backend", backend, "-f", "json", "-e", program, "-c", f"{hits} flood 4 {number // 4}", timeout=120
            )
            assert done.status == 0
            assert there(done) + told(done) == number
            lost.append(told(done))
    assert lost.count(0) >= WHOLE, f"lost: {lost}"


def copier_of(pid: int) -> psutil.Process | None:
    with_name = [child for child in psutil.Process(pid).children() if child.name() == "tracer-copier"]
    return with_name[0] if with_name else None


def found_copier(pid: int) -> psutil.Process:
    until(lambda: copier_of(pid) is not None, what=lambda: "no copier")
    copier = copier_of(pid)
    assert copier is not None
    return copier


def switches(process: psutil.Process) -> int:
    return int(process.num_ctx_switches().voluntary)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_copier_that_somebody_ends_or_stops_loses_nothing_untold(
    number: signal.Signals, hits: Path, tmp_path: Path, clean: None
) -> None:
    program = f"usdt:{hits}:hits:flood {{ @n = count(); @[str(arg1)] = count(); }}"
    # Not with -c: tracer would end with the flood, on a machine that copies fast even before the signal.
    with busy(), tracing(tmp_path, "--backend", "ftrace", "-f", "json", "-e", program) as running:
        copier = found_copier(running.pid)
        before = switches(copier)
        with target(hits, "flood", "4", "100000") as process:
            until(lambda: switches(copier) > before, what=lambda: "nothing was copied")
            copier.send_signal(number)
            process.wait(120)
        done = running.stop(120)
    assert done.status == 0
    assert counted(done) + told(done) == 400_000
    assert sum(maps(done)["@"].values()) == counted(done)


@pytest.fixture
def idle(tmp_path: Path, hits: Path) -> Iterator[tuple[int, psutil.Process]]:
    """A trace of which nothing is hit: tracer's number, and its copier."""
    with tracing(tmp_path, "-v", "--backend", "ftrace", "-e", f"usdt:{hits}:hits:flood {SAMPLED}") as running:
        running.wait_for("empties the buffers")
        yield running.pid, found_copier(running.pid)


def test_the_copier_is_at_rest_while_nothing_happens(idle: tuple[int, psutil.Process]) -> None:
    _, copier = idle
    before = switches(copier), copier.cpu_times()[:2]
    time.sleep(1)
    assert (switches(copier), copier.cpu_times()[:2]) == before


def test_the_kernel_ends_a_copier_that_does_not_sleep(idle: tuple[int, psutil.Process]) -> None:
    _, copier = idle
    if os.sched_getscheduler(copier.pid) == os.SCHED_FIFO:
        assert os.sched_getparam(copier.pid).sched_priority == 1
    limits = Path(f"/proc/{copier.pid}/limits").read_text()
    assert re.search(r"^Max realtime timeout +500000 +500000", limits, re.MULTILINE)


def test_the_copier_holds_no_probe_and_ends_with_tracer(idle: tuple[int, psutil.Process], clean: None) -> None:
    pid, copier = idle
    held = [os.readlink(f"/proc/{copier.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{copier.pid}/fd")]
    pipes = [name for name in held if name.startswith("pipe:")]
    rings = [name for name in held if name == "anon_inode:[perf_event]"]
    # Python holds a descriptor of its own for what it has mapped.
    assert (len(pipes), len(rings)) == (2, 2 * (os.cpu_count() or 1)) and len(held) == len(pipes) + len(rings)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not copier.is_running() or copier.status() == psutil.STATUS_ZOMBIE, what=lambda: "it goes on")


def test_signals_for_the_whole_group_are_tracers_alone(hits: Path, tmp_path: Path, clean: None) -> None:
    program = f"usdt:{hits}:hits:flood {{ @n = count(); @[str(arg1)] = count(); }}"
    with tracing(tmp_path, "--backend", "ftrace", "-f", "json", "-e", program) as running:
        copier = found_copier(running.pid)
        with target(hits, "flood", "1", "1000") as process:
            process.wait(30)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            copier.send_signal(number)
        done = running.stop()
    assert (done.status, counted(done)) == (0, 1000)
    assert not psutil.pid_exists(copier.pid)


@pytest.mark.parametrize(
    ("words", "body"),
    [((), "{ @ = count(); }"), (("--no-priority",), SAMPLED)],
    ids=["what is only counted", "--no-priority"],
)
def test_where_none_is_needed_or_wanted_there_is_no_copier(
    words: tuple[str, ...], body: str, hits: Path, tmp_path: Path, clean: None
) -> None:
    with tracing(tmp_path, *words, "-v", "--backend", "ftrace", "-e", f"usdt:{hits}:hits:flood {body}") as running:
        assert copier_of(running.pid) is None
        assert "empties the buffers" not in running.stop().err


def test_without_the_right_to_a_priority_it_is_said_with_v(hits: Path, clean: None) -> None:
    program = f"usdt:{hits}:hits:flood {{ @n = count(); @[str(arg1)] = count(); }}"
    words = ("-v", "--backend", "ftrace", "-f", "json", "-e", program, "-c", f"{hits} flood 2 1000")
    done = tracer(*words, prefix=("setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"))
    assert (done.status, counted(done)) == (0, 2000)
    assert "empties the buffers, at tracer's own priority, as the kernel gives it no other (CAP_SYS_NICE)" in done.err
