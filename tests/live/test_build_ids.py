"""Attach points by build-id count the hits of every copy that runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import target, tracer, until
from tests.live.answers import maps
from tracer.resolve.elf.file import Elf

pytestmark = pytest.mark.live

Place = Callable[[str], Path]


@pytest.fixture
def ticker(place: Place) -> tuple[Path, str]:
    """A program with a build-id that no other copy on the machine has."""
    path = place("ticker")
    note = path.with_name("note")
    with Elf(str(path)) as elf:
        section = elf.section(".note.gnu.build-id")
        assert section is not None
        content = bytearray(elf.content(section))
    content[-8:] = os.urandom(8)
    note.write_bytes(content)
    subprocess.run(["objcopy", "--update-section", f".note.gnu.build-id={note}", path], check=True)
    with Elf(str(path)) as elf:
        assert elf.build_id is not None
        return path, elf.build_id


def runs(pid: int, path: Path) -> None:
    """Until the process has gone through exec."""
    until(lambda: os.readlink(f"/proc/{pid}/exe") == str(path))


def test_a_command_is_traced_by_its_build_id(backend: str, ticker: tuple[Path, str], clean: None) -> None:
    path, build_id = ticker
    program = f"usdt:build-id:{build_id}:ticker:tick, uprobe:build-id:{build_id[:20]}:main {{ @[probe] = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 0.3 10")
    assert maps(done) == {"@": {f"usdt:{path}:ticker:tick": 30, f"uprobe:{path}:main": 1}}
    assert done.err == "Attached 2 probes\n"


@pytest.mark.parametrize("whom", ["-p", "everybody"])
def test_every_copy_that_runs_is_traced(backend: str, ticker: tuple[Path, str], clean: None, whom: str) -> None:
    path, build_id = ticker
    other = path.with_name("other")
    shutil.copy(path, other)
    with target(path, "60") as first, target(other, "60") as second:
        for process, name in (first, path), (second, other):
            runs(process.pid, name)
        body = "@[probe, pid] = count(); @first[pid] = min(nsecs); @last[pid] = max(nsecs);"
        program = f"usdt:build-id:{build_id}:tick {{ {body} }} interval:ms:500 {{ exit(); }}"
        options = ("-p", str(second.pid)) if whom == "-p" else ()
        done = tracer("--backend", backend, "-f", "json", *options, "-e", program)
        wanted = {f"usdt:{other}:ticker:tick,{second.pid}"}
        if whom != "-p":
            wanted.add(f"usdt:{path}:ticker:tick,{first.pid}")
        found = maps(done)
        assert set(found["@"]) == wanted
        for name, hits in found["@"].items():  # one every 10 ms, or fewer on a busy machine
            pid = name.rpartition(",")[2]
            assert 5 <= hits <= (found["@last"][pid] - found["@first"][pid]) / 10_000_000 + 1.5


def test_one_that_nobody_runs_is_an_error_under_the_attach_point(backend: str) -> None:
    point = f"usdt:build-id:{os.urandom(20).hex()}:ticker:tick"
    done = tracer("--backend", backend, "-e", f"{point} {{ @ = count(); }}")
    assert done.status == 2
    digits = point.split(":")[2]
    remedy = "start a program that uses it"
    assert f"{'^' * len(point)} error: no process runs a file of build-id {digits}; {remedy}" in done.err
