"""What is said of the cost of a hit where it cannot be measured, or not at the first attempt."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracer.dataclass import replace
from tracer.kernel.trials import hit_cost
from tracer.kernel.trials.hit_cost import ASSUMED_NS, Cost, HitCosts
from tracer.kernel.workers import spawn
from tracer.kinds.site import FileIdentity, FileSite


@pytest.fixture
def site(tmp_path: Path) -> FileSite:
    path = tmp_path / "code"
    path.write_bytes(b"\x90" * 16)
    return FileSite("usdt", "usdt:code:a:b", "", (), 0, str(path), FileIdentity(0, 0, 16, 0), 0, 0)


def refused(file: str) -> spawn.Worker:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_what_cannot_be_tried_is_assumed_and_the_reason_told(monkeypatch: pytest.MonkeyPatch, site: FileSite) -> None:
    monkeypatch.setattr(spawn, "start", refused)
    costs = HitCosts()
    assert costs.of([site]) is None
    assert costs.of([site]) == Cost(ASSUMED_NS, "Resource temporarily unavailable")


def test_the_cost_of_an_attach_point_is_the_mean_over_its_kinds(
    monkeypatch: pytest.MonkeyPatch, site: FileSite, tmp_path: Path
) -> None:
    asked = []
    says = tmp_path / "says.py"
    says.write_text("import sys\nprint(len(sys.stdin.readline()))\n")  # "90 0 7\n" and "90 1 7\n" have 7 bytes
    start = spawn.start

    def answers(file: str) -> spawn.Worker:
        asked.append(file)
        return start(str(says))

    monkeypatch.setattr(spawn, "start", answers)
    costs = HitCosts()
    returning = replace(site, kind="uretprobe")
    stepped = replace(site, offset=1 << 20)  # behind the end: no nop
    found = None
    while found is None:
        found = costs.of([site, returning, site, stepped], 7)
    assert found == Cost((7 + 7 + 7 + 11) / 4)
    assert asked == [hit_cost.__file__] * 3


def test_a_process_that_dies_is_a_reason(monkeypatch: pytest.MonkeyPatch, site: FileSite, tmp_path: Path) -> None:
    dies = tmp_path / "dies.py"
    dies.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    start = spawn.start
    monkeypatch.setattr(spawn, "start", lambda file: start(str(dies)))
    costs = HitCosts()
    found = None
    while found is None:
        found = costs.of([site])
    assert found == Cost(ASSUMED_NS, "the process that measures it died")


def test_a_file_that_is_gone_has_no_instruction_to_measure(site: FileSite) -> None:
    os.unlink(site.path)
    assert HitCosts().of([site]) == Cost(ASSUMED_NS, "the file cannot be opened any more")


def test_the_process_says_why_it_has_no_answer() -> None:
    command = [sys.executable, hit_cost.__file__]
    done = subprocess.run(command, input="no-hex 1 0\n", capture_output=True, text=True)
    assert done.returncode == 0 and "hexadecimal" in done.stdout


def test_the_process_ends_by_itself_once_nobody_waits(site: FileSite) -> None:
    """Killed it would leave its breakpoint."""
    costs = HitCosts()
    assert costs.of([site]) is None
    assert costs._asked is not None
    _, process = costs._asked
    costs.close()
    assert not Path(f"/proc/{process.pid}").exists()
