"""What the kernel tells of processes that map files: read in time, and where something was lost, told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE_S, environment, until
from tests.targets.build import build
from tracer import pipeline
from tracer.errors import Source
from tracer.host.maps import Mapping, mappings
from tracer.kernel import mapping_records
from tracer.kernel.mapping_records import Mapped, MappingRecords, Missed
from tracer.kinds.site import Target
from tracer.resolve.symbols import modules
from tracer.tracing.names import Names

pytestmark = pytest.mark.live


def _start(count: int) -> None:
    subprocess.run(["sh", "-c", f"i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done"], check=True)


@pytest.fixture(autouse=True)
def one_cpu() -> Iterator[None]:
    """All records go to one ring: each CPU has its own, and what one lost is told with the next record in that one."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


def test_lost_records_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping_records, "_RING", 8192)
    records = MappingRecords([os.getpid()])
    try:
        _start(1)
        assert not any(isinstance(each, Missed) for each in records.take())
        _start(50)
        assert records.pressing
        *_, last = records.take()
        assert last == Missed(0)
        _start(1)  # a ring says it with the next record that it has room for
        found = list(records.take())
    finally:
        records.close()
    assert sum(each.count for each in found if isinstance(each, Missed)) > 50
    assert any(isinstance(each, Mapped) for each in found)


@pytest.mark.parametrize("keeps_up", [True, False])
def test_they_are_read_before_there_is_no_room(monkeypatch: pytest.MonkeyPatch, keeps_up: bool) -> None:
    monkeypatch.setattr(mapping_records, "_RING", 1 << 16)
    target = Target([os.getpid()])
    plan, _ = pipeline.plan(Source(f"uprobe:{build('depot')}:plain {{ @[ustack] = count(); }}"), (), target)
    names = Names(plan, target)
    try:
        # A ring says what it lost with the next record that it has room for.
        for _ in range(25):
            _start(10)
            if keeps_up:
                names.keep_up()
        for _ in range(2):
            names.symbol(os.getpid(), 0)
            _start(20)
        names.symbol(os.getpid(), 0)
        assert bool(names.missed) is not keeps_up
    finally:
        names.close()


def test_a_file_is_not_taken_for_that_of_the_program_run_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both lie at the same addresses, and the process changes between them while tracer opens what is mapped."""
    (tmp_path / "turns.c").write_text(
        "#include <unistd.h>\n"
        "int main(int n, char **argv) { char c; while (read(0, &c, 1) > 0) execl(argv[1], argv[1], argv[0], NULL); }"
    )
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        subprocess.run(["gcc", "-static", "-no-pie", "turns.c", "-o", path], cwd=tmp_path, check=True)
    with subprocess.Popen([two, one], stdin=subprocess.PIPE, bufsize=0) as process:
        stdin = process.stdin
        assert stdin is not None

        def code(path: Path) -> Mapping:
            until(lambda: any(each.path == str(path) for each in mappings(process.pid)), PATIENCE_S)
            return next(each for each in mappings(process.pid) if each.path == str(path) and each.executable)

        second = code(two)
        stdin.write(b".")
        first = code(one)
        stdin.write(b".")
        assert code(two) == second and second.key == first.key
        opened = os.open

        def open_and_change(path: str, *flags: int) -> int:
            descriptor = opened(path, *flags)
            if "map_files" in path:
                stdin.write(b".")
                code(one)
            return descriptor

        monkeypatch.setattr(os, "open", open_and_change)
        module = modules.Modules().of(process.pid, first)
        stdin.close()
    assert module is not None and module.elf.inode == one.stat().st_ino
    module.elf.close()


def test_what_was_lost_is_said(tmp_path: Path) -> None:
    """A trace that is stopped while processes come and go."""
    program = f"uprobe:{build('depot')}:plain {{ @[ustack] = count(); }} interval:s:1 {{ }}"
    script = tmp_path / "small.py"
    script.write_text(
        "import sys\nfrom tracer.kernel import mapping_records\nmapping_records._RING = 4096\n"
        "from tracer.tracing.names import Names\nNames.keep_up = lambda self: None\n"
        "from tracer.__main__ import main\nmain()\n"
    )
    command = f"sh -c 'i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; {build('depot')} 1'"
    traced = [sys.executable, str(script), "--follow", "-e", program, "-c", command]
    done = subprocess.run(traced, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    assert "of what processes map lost: addresses of those that have ended may have no names\n" in done.stderr
