"""What is said of the cost of a hit where it cannot be measured, or not at the first attempt."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tracer.kernel.workers import spawn
from tracer.overhead import cost, measuring_process
from tracer.overhead.cost import ASSUMED_NS, HitCosts
from tracer.overhead.guard import Cost
from tracer.resolve.model import FileIdentity, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    path = tmp_path / "code"
    path.write_bytes(b"\x90" * 16)
    return Site("usdt", str(path), FileIdentity(0, 0, 16, 0), 0, 0, "usdt:code:a:b", "")


def refused(file: str) -> spawn.Worker:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def test_what_fails_twice_is_assumed_and_the_reason_told(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(spawn, "start", refused)
    costs = HitCosts()
    assert costs.of([site]) is None
    assert costs.of([site]) is None
    assert costs.of([site]) == Cost(ASSUMED_NS, "Resource temporarily unavailable")


def test_what_fails_once_is_asked_again(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setattr(spawn, "start", refused)
    costs = HitCosts()
    assert costs.of([site]) is None
    asked = []

    def answers(file: str) -> spawn.Worker:
        asked.append(file)
        read, back = os.pipe()
        os.write(back, b"[412.5]\n")
        os.close(back)
        true = shutil.which("true") or ""
        return spawn.Worker(os.posix_spawn(true, [true], {}), os.open(os.devnull, os.O_WRONLY), read)

    monkeypatch.setattr(spawn, "start", answers)
    assert costs.of([site]) is None
    assert costs.of([site]) == Cost(412.5)
    assert asked == [cost._PROCESS]


def test_a_process_that_dies_is_a_reason(monkeypatch: pytest.MonkeyPatch, site: Site, tmp_path: Path) -> None:
    dies = tmp_path / "dies.py"
    dies.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(cost, "_PROCESS", str(dies))
    costs = HitCosts()
    found = None
    while found is None:
        found = costs.of([site])
    assert found == Cost(ASSUMED_NS, "the process that measures it died")


def test_a_file_that_is_gone_has_no_instruction_to_measure(site: Site) -> None:
    os.unlink(site.path)
    assert HitCosts().of([site]) == Cost(ASSUMED_NS, "the file cannot be opened any more")


def test_the_process_answers_for_each_kind_by_itself() -> None:
    request = json.dumps([["no hex", False, 0], ["also", True, 0]])
    command = [sys.executable, measuring_process.__file__]
    done = subprocess.run(command, input=request + "\n", capture_output=True, text=True)
    assert done.returncode == 0
    reasons = json.loads(done.stdout)
    assert len(reasons) == 2 and all("hexadecimal" in reason for reason in reasons)


def test_the_process_ends_by_itself_once_nobody_waits(site: Site) -> None:
    """Killed it would leave its breakpoint."""
    costs = HitCosts()
    assert costs.of([site]) is None
    process = costs._process
    assert process is not None
    costs.close()
    assert not Path(f"/proc/{process.pid}").exists()
