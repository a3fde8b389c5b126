"""Signals set flags, wake the loop, and are as before afterwards."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE_S, TRACER, environment
from tracer.cli.tracing.signals import Signals
from tracer.errors import TracerError
from tracer.target.running import RunningProcess
from tracer.tracing.loop import Controls


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_asks_for_the_end_and_wakes_the_loop(number: signal.Signals) -> None:
    controls = Controls()
    with controls, Signals(controls):
        assert select.select(controls.wake, [], [], 0)[0] == []
        os.kill(os.getpid(), number)
        assert select.select(controls.wake, [], [], PATIENCE_S)[0] == list(controls.wake)
        assert (controls.stop, controls.print_maps) == (True, False)
        controls.acknowledge()
        assert select.select(controls.wake, [], [], 0)[0] == []


def test_asks_for_the_maps_and_goes_on() -> None:
    controls = Controls()
    with controls, Signals(controls):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert (controls.stop, controls.print_maps) == (False, True)


def test_puts_everything_back() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    descriptors = len(os.listdir("/proc/self/fd"))
    controls = Controls(wake=(0,))
    with controls, Signals(controls):
        during = controls.wake
    assert len(during) == 2
    assert list(controls.wake) == [0]
    assert {number: signal.getsignal(number) for number in before} == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    controls.acknowledge()


def test_raises_nothing_however_often_it_is_asked() -> None:
    controls = Controls()
    with controls, Signals(controls):
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
    assert controls.stop


def test_a_second_signal_asks_to_hurry_but_not_one_that_comes_together_with_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # timeout(1) sends its signal to the process and to its group.
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    controls = Controls()
    with controls, Signals(controls):
        for later, hurry in ((0.0, False), (0.1, False), (0.4, False), (1.0, True)):
            now = 100.0 + later
            os.kill(os.getpid(), signal.SIGTERM)
            assert (controls.stop, controls.hurry) == (True, hurry)


def test_a_first_signal_asks_to_hurry_where_the_probes_are_gone() -> None:
    controls = Controls(detached=True)
    with controls, Signals(controls):
        os.kill(os.getpid(), signal.SIGINT)
        assert (controls.stop, controls.hurry) == (True, True)


def test_a_signal_after_the_last_trace_does_not_kill() -> None:
    code = (
        "import os, signal\n"
        "from tracer.cli.tracing.signals import Signals; from tracer.tracing.loop import Controls\n"
        "with Controls() as controls, Signals(controls, last=True): pass\n"
        "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): os.kill(os.getpid(), number)\n"
        "raise SystemExit(7)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


def test_what_nohup_ignores_stays_ignored() -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        controls = Controls()
        with controls, Signals(controls):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not controls.stop
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_sigint_ends_a_trace_in_the_background_of_a_script(tmp_path: Path) -> None:
    """The shell ignores it for such a job, so that `wait` would wait for ever."""
    said = tmp_path / "said"
    script = f'"$@" 2>{said} & until grep -q Attached {said}; do sleep 0.05; done; kill -INT $!; wait; echo waited'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *TRACER, "-e", "interval:s:60 { } END { print(1); }"],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.stdout, said.read_text()) == ("1\n\n\nwaited\n", "Attached 2 probes\n")


def test_sees_a_process_end() -> None:
    with subprocess.Popen(["sleep", "100"]) as process, RunningProcess(process.pid) as running:
        assert not running.ended()
        process.kill()
        assert select.select([running.pidfd], [], [], PATIENCE_S)[0] == [running.pidfd]
        assert running.ended()


def test_refuses_a_pid_that_is_gone_and_one_that_is_a_thread() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    with pytest.raises(TracerError) as caught:
        RunningProcess(process.pid)
    assert caught.value.message == f"no process {process.pid}"
    script = (
        "import threading, time\n"
        "thread = threading.Thread(target=time.sleep, args=(100,), daemon=True)\n"
        "thread.start()\n"
        "print(thread.native_id, flush=True)\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as threaded:
        assert threaded.stdout is not None
        thread = int(threaded.stdout.readline())
        with pytest.raises(TracerError) as caught:
            RunningProcess(thread)
        name = os.path.basename(sys.executable)
        assert caught.value.message == f"{thread} is a thread of process {threaded.pid} ({name})"
        hint = f"-p {threaded.pid} traces all its threads, and with the predicate /tid == {thread}/ this one alone"
        assert caught.value.hint == hint
        threaded.kill()


def test_takes_a_process_whose_main_thread_alone_has_ended() -> None:
    script = (
        "import ctypes, os, threading, time\n"
        "def others():\n"
        "    while ') Z' not in open(f'/proc/{os.getpid()}/stat').read():\n"
        "        time.sleep(0.01)\n"
        "    print(flush=True)\n"
        "    time.sleep(100)\n"
        "threading.Thread(target=others).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"  # exit of one thread
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as left:
        assert left.stdout is not None and left.stdout.readline() == "\n"
        with RunningProcess(left.pid) as process:
            assert (process.pid, process.ended()) == (left.pid, False)
            left.kill()
            left.wait()
            assert process.ended()
