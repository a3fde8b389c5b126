"""SIGKILL while tracing: the target runs on, at full speed, and nothing of the tracer's is left in the kernel."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.harness.cli import PATIENCE, PATIENCE_S, read_line, target, tell, tracer, tracing, until
from tests.harness.kernel import Traces, left_since, traces, uprobe_events
from tests.targets.build import build

pytestmark = pytest.mark.live

# A call of `spin` takes some nanoseconds, with a probe on it some hundred.
FAST_NS, SLOW_NS = 40.0, 150.0

PROBES = {"uprobe": "uprobe:{}:spin", "usdt": "usdt:{}:hot:spin", "uretprobe": "uretprobe:{}:spin"}


def speed(process: subprocess.Popen[bytes]) -> float:
    """Nanoseconds a call, as measured in the 20 ms after what was printed so far was read."""
    return float(read_line(process))


def is_slow(ns: float) -> bool:
    return ns > SLOW_NS


def is_fast(ns: float) -> bool:
    return ns < FAST_NS


def speed_settles(process: subprocess.Popen[bytes], fits: Callable[[float], bool]) -> None:
    end = time.monotonic() + PATIENCE_S * PATIENCE
    seen = []
    while time.monotonic() < end:
        seen.append(speed(process))
        if fits(seen[-1]):
            return
    raise AssertionError(f"not within {PATIENCE_S} s: {seen}")


@contextmanager
def hot(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with target(path, "120") as process:
        speed_settles(process, is_fast)
        yield process
        assert process.poll() is None, "the target did not live on"


@pytest.mark.parametrize("kind", PROBES)
def test_after_sigkill_the_target_is_fast_again_and_nothing_is_left(
    kind: str, backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    path = place("hot")
    with hot(path) as process:
        before = traces()
        with tracing(tmp_path, "--backend", backend, "-e", PROBES[kind].format(path) + " { @ = count(); }") as running:
            speed_settles(process, is_slow)
            running.process.kill()
            speed_settles(process, is_fast)
        left = left_since(before)
        assert not left, f"left behind: {left}"


def test_after_sigkill_of_a_tracer_of_all_processes_nothing_is_left(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    path = place("hot")
    with hot(path) as process:
        before = traces()
        program = f"uprobe:{path}:spin {{ @[arg0 % 3] = count(); }} interval:ms:50 {{ print(@); clear(@); }}"
        with tracing(tmp_path, "--backend", backend, "-e", program) as running:
            running.wait_for_output(b"@[0]: ")
            speed_settles(process, is_slow)
            running.process.kill()
            speed_settles(process, is_fast)
        left = left_since(before)
        assert not left, f"left behind: {left}"


@pytest.mark.clock
@pytest.mark.parametrize("broom", ["cleanup", "next start"])
def test_what_is_left_when_the_watcher_is_killed_too_is_swept(
    broom: str, backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    path = place("hot")
    with hot(path) as process:
        before = traces()
        with tracing(tmp_path, "--backend", backend, "-e", f"uprobe:{path}:spin {{ @ = count(); }}") as running:
            speed_settles(process, is_slow)
            family = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
            family += [p for p in daemons_of(running.pid) if p not in family]
            # The tracer is stopped first, so that it sees nothing of its children's end.
            for member in family:
                member.send_signal(signal.SIGSTOP)
            for member in reversed(family):
                member.kill()
            speed_settles(process, is_fast)
        if backend == "ftrace":
            assert any(str(path) in line or "spin" in line for line in new_uprobes(before)), "nothing to sweep"
        if broom == "cleanup":
            done = tracer("cleanup")
            assert done.status == 0, done.err
        else:
            done = tracer("--backend", backend, "-e", f"uprobe:{path}:main {{ exit(); }}", "-c", f"{path} 0.01")
            assert done.status == 0, done.err
        left = left_since(before)
        assert not left, f"left behind: {left}"


def new_uprobes(before: Traces) -> list[str]:
    return [line for line in uprobe_events() if line not in before.uprobes]


def daemons_of(pid: int) -> list[psutil.Process]:
    """Processes that a tracer started and that left its process tree: they name it in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if str(pid) in words and any("tracer" in word for word in words):
            found.append(process)
    return found


def test_cleanup_leaves_a_running_tracer_alone(backend: str, place: Callable[[str], Path], tmp_path: Path) -> None:
    path = place("ticker")
    with tracing(tmp_path, "--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}") as running:
        done = tracer("cleanup")
        assert done.status == 0, done.err
        subprocess.run([path, "0.2", "2"], check=True, capture_output=True)
        ended = running.stop()
    assert (ended.status, ended.text) == (0, "@: 100\n")


def test_a_target_that_is_killed_ends_the_trace(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    with target(path, "120") as process:
        # Between two marks it has 10 ms of CPU for calls.
        program = f"uprobe:{path}:spin /arg0 % 20 == 0/ {{ @ = count(); }}"
        program += f' uprobe:{path}:spin_mark {{ printf("mark\\n"); }}'
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            running.wait_for_output(b"mark\nmark\n")
            process.kill()
            done = running.wait()
    assert done.status == 0
    assert re.fullmatch(rb"(mark\n)+\n?@: [1-9]\d*\n", done.out)


def test_after_sigkill_samples_and_debug_registers_are_nobodys(backend: str, tmp_path: Path) -> None:
    """A thread has four registers: with one that is still taken, the second trace would find none free."""
    path = build("counters")
    before = traces()
    watched = " ".join(f"w:{path}:wide[{number}]:w {{ @w{number} = count(); }}" for number in (0, 8, 16))
    program = f"w:{path}:counter:w {{ @ = count(); }} {watched} profile:hz:997 {{ @on[cpu] = count(); }}"
    with target(path, 1, 0, "wait") as process:
        assert read_line(process) == "ready"
        for by in (signal.SIGKILL, signal.SIGINT):
            with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
                os.kill(running.pid, by)
                ended = running.wait()
                until(lambda: not undoing(running.pid), PATIENCE_S)
            assert by == signal.SIGKILL or (ended.status, "no debug register" in ended.err) == (0, False)
        tell(process)
        assert process.wait(PATIENCE_S) == 0
    left = left_since(before)
    assert not left, f"left behind: {left}"


@pytest.mark.clock
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_many_events_of_the_kernel_end_at_once_and_leave_nothing(
    by: signal.Signals, backend: str, tmp_path: Path
) -> None:
    """The kernel takes some 40 ms to let go of each of these 60, whoever closes them."""
    before = traces()
    program = "tracepoint:syscalls:sys_enter_s* { @[probe] = count(); }"
    with tracing(tmp_path, "--backend", backend, "-e", program) as running:
        os.statvfs("/")
        os.kill(running.pid, by)
        begun = time.monotonic()
        done = running.wait()
        assert time.monotonic() - begun < 1.5 * PATIENCE
    assert by == signal.SIGKILL or (done.status == 0 and "@[tracepoint:syscalls:sys_enter_statfs]: " in done.text)
    until(lambda: not undoing(running.pid), PATIENCE_S)
    left = left_since(before)
    assert not left, f"left behind: {left}"


def undoing(pid: int) -> list[psutil.Process]:
    """The processes that take out the probes of a tracer."""
    text = f"uprobe-undo: takes out the probes of process {pid} "
    return [each for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [""])[0].startswith(text)]
