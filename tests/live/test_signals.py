"""What signals to the tracer do."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import TRACER, environment, target, tracing

pytestmark = pytest.mark.live


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
def test_it_prints_the_maps_and_exits_with_0(
    number: int, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    program = f'usdt:{path}:ticker:tick {{ @ = count(); }} END {{ printf("end\\n"); }}'
    with tracing(tmp_path, "--backend", backend, "-e", program) as running:
        subprocess.run([path, "0.1", "2"], check=True, capture_output=True)
        running.signal(number)
        done = running.wait()
    assert (done.status, done.text, done.err) == (0, "end\n@: 50\n", "Attached 2 probes\n")


def test_sigusr1_prints_the_maps_and_goes_on(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    with tracing(tmp_path, "--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}") as running:
        subprocess.run([path, "0.1", "2"], check=True, capture_output=True)
        running.signal(signal.SIGUSR1)
        running.wait_for_output(b"@: 50\n")
        subprocess.run([path, "0.1", "2"], check=True, capture_output=True)
        done = running.stop()
    assert (done.status, done.text) == (0, "@: 50\n@: 100\n")


def test_a_second_ctrl_c_does_not_lose_the_answer(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    with tracing(tmp_path, "--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}") as running:
        subprocess.run([path, "0.1", "2"], check=True, capture_output=True)
        running.signal(signal.SIGINT)
        running.signal(signal.SIGINT)
        done = running.wait()
    assert (done.status, done.text) == (0, "@: 50\n")


def test_a_signal_amid_a_storm_of_hits_ends_it_soon(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    with target(path, "60"):
        program = f'uprobe:{path}:spin {{ printf("%d\\n", arg0); }}'
        with tracing(tmp_path, "--backend", backend, "-e", program) as running:
            running.wait_for_output(b"\n")
            running.signal(signal.SIGTERM)
            done = running.wait()
    assert done.status == 0


def test_a_reader_that_goes_away_ends_it(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    # `tracer … | head -1`
    path = place("hot")
    with target(path, "60"):
        command = [*TRACER, "--backend", backend, "-e", f'uprobe:{path}:spin {{ printf("%d\\n", arg0); }}']
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline().strip().isdigit()
            process.stdout.close()
            process.wait(20)
            assert "Traceback" not in process.stderr.read().decode()
