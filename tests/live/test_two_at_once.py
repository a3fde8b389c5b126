"""Two tracers on one probe do not disturb each other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tell, tracing

pytestmark = pytest.mark.live

PAIRS = [("bcc", "ftrace"), ("ftrace", "ftrace"), ("bcc", "bcc")]


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_both_count_every_hit(pair: tuple[str, str], place: Callable[[str], Path], tmp_path: Path, clean: None) -> None:
    path = place("threads")
    program = f"usdt:{path}:threads:hit {{ @[arg0] = count(); }}"
    with (
        target(path, "2", "20000", "wait") as process,
        tracing(tmp_path, "--backend", pair[0], "-p", str(process.pid), "-e", program) as first,
        tracing(tmp_path, "--backend", pair[1], "-e", program) as second,
    ):
        tell(process)
        assert read_line(process) == "done"
        for running in (second, first):
            done = running.stop()
            assert (done.status, done.text) == (0, "@[0]: 20000\n@[1]: 20000\n"), done.err


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_one_that_comes_and_goes_costs_the_other_nothing(
    pair: tuple[str, str], place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    # The probe stands behind a semaphore: the one that leaves must take away its own count alone.
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    with tracing(tmp_path, "--backend", pair[0], "-e", program) as first:
        with target(path, "3", "2") as process:
            with tracing(tmp_path, "--backend", pair[1], "-e", program) as second:
                done = second.stop()
                assert done.status == 0, done.err
            assert process.poll() is None, "the target ended before the second tracer"
            assert read_line(process) == "1500"
        # And the other way round: what comes after the second has gone is still counted.
        subprocess.run([path, "0.2", "2"], check=True, capture_output=True)
        done = first.stop()
    assert (done.status, done.text) == (0, "@: 1600\n"), done.err
