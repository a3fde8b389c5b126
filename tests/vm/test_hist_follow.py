"""Hist triggers with --follow: an instance of tracefs lets them see the processes and all that they start, no other."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.harness.cli import read_line, target, tell, tracing, until
from tests.harness.kernel import TRACEFS, uprobe_events
from tests.harness.warm import Warms
from tests.live.test_execs import FOLLOWED
from tests.live.test_follow import ANSWER, N, beside_another, by_kind

pytestmark = [pytest.mark.needs("ftrace", "hist"), pytest.mark.usefixtures("clean")]

IN_KERNEL = "tracer: @: aggregated in the kernel, by a hist trigger\n"


def instances() -> list[str]:
    """Those of tracers."""
    return [path.name for path in TRACEFS.glob("instances/tracer_*")]


@pytest.mark.parametrize("way", ["command", "process"])
def test_the_kernel_counts_every_descendant_and_nobody_else(
    way: str, place: Callable[[str], Path], tmp_path: Path, warms: Warms
) -> None:
    path = place("family")
    options = ("-v", "--backend", "ftrace", "--follow", "-e", by_kind(path))
    if way == "command":
        done = warms.tracer(*options, "-c", f"{path} {N}")
        assert (done.status, done.text) == (0, f"done\n{ANSWER}")
    else:
        done = beside_another(path, tmp_path, *options)
        assert (done.status, done.text) == (0, ANSWER)
    assert IN_KERNEL in done.err
    assert (instances(), uprobe_events()) == ([], [])


@pytest.mark.parametrize("steps", FOLLOWED)
def test_the_kernel_counts_what_execs_from_whatever_thread(
    steps: str, place: Callable[[str], Path], warms: Warms
) -> None:
    path = place("execs")
    program = f"uprobe:{path}:work {{ @ = hist(arg0); }}"
    done = warms.tracer("-v", "--backend", "ftrace", "--follow", "-f", "json", "-e", program, "-c", f"{path} {steps}")
    assert (done.status, IN_KERNEL in done.err) == (0, True), done.err
    counts = [line for line in done.text.splitlines() if '"type": "hist"' in line]
    assert sum(int(part.split("}")[0]) for part in counts[0].split('"count": ')[1:]) == FOLLOWED[steps]


@pytest.mark.parametrize("killed", ["tracer", "both"])
def test_after_sigkill_no_instance_stays(
    killed: str, place: Callable[[str], Path], tmp_path: Path, warms: Warms
) -> None:
    path = place("family")
    with (
        target(path, N, "wait") as process,
        tracing(tmp_path, "--backend", "ftrace", "--follow", "-e", by_kind(path), "-p", str(process.pid)) as running,
    ):
        assert len(instances()) == 1
        if killed == "both":
            watchers = psutil.Process(running.pid).children()
            running.signal(signal.SIGSTOP)
            for each in watchers:
                each.kill()
        running.signal(signal.SIGKILL)
        running.wait()
        if killed == "both":
            (left,) = instances()
            assert warms.tracer("cleanup").text.endswith(f"instances: {left}\n")
        until(lambda: not instances() and not uprobe_events(), 30, lambda: (instances(), uprobe_events()))
        tell(process)
        assert read_line(process) == "done"
