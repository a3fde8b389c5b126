"""What signals to the tracer do."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import target, tracing

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
        done = running.wait(20)
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
        done = running.wait(20)
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
            done = running.wait(10)
    assert done.status == 0


def test_a_reader_that_goes_away_ends_it(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    # `tracer … | head -1`
    from tests.harness.cli import TRACER, environment

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


def test_each_hit_falls_into_exactly_one_interval(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("threads")
    program = (
        f"usdt:{path}:threads:hit {{ @ = count(); @k[arg0] = sum(arg1); @h = hist(arg1); }}"
        " interval:ms:20 { print(@); clear(@); print(@k); clear(@k); print(@h); clear(@h); }"
    )
    with tracing(
        tmp_path, "--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 2 50000", ready=None
    ) as running:
        done = running.wait()
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    from tests.live.answers import records, total

    counts = [record["data"]["@"] for record in records(done, "map") if "@" in record["data"]]
    sums = [record["data"]["@k"] for record in records(done, "map") if "@k" in record["data"]]
    bars = [record["data"]["@h"] for record in records(done, "hist")]
    assert sum(counts) == 100_000
    for thread in ("0", "1"):
        assert sum(each.get(thread, 0) for each in sums) == sum(range(50_000))
    assert sum(map(total, bars)) == 100_000
