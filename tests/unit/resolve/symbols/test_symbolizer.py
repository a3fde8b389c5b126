from __future__ import annotations

import ctypes
import mmap
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.resolve.conftest import Build
from tracer.dataclass import replace
from tracer.host.maps import Mapping, mappings
from tracer.resolve.symbols import modules, processes
from tracer.resolve.symbols.modules import Modules
from tracer.resolve.symbols.processes import Processes
from tracer.resolve.symbols.symbolizer import Symbolizer

PRINTS_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static __attribute__((noinline)) void hidden(void) { }
int main(void)
{
    printf("%p %p %p\n", (void *)main, (void *)hidden, (void *)malloc); fflush(stdout);
    for (;;) pause();
}
"""

PRINTS_CC = r"""
#include <cstdio>
#include <unistd.h>
namespace shop { __attribute__((noinline)) int price(int x) { asm volatile(""); return x; } }
int main() { printf("%p\n", (void *)shop::price); fflush(stdout); shop::price(1); for (;;) pause(); }
"""


class Running:
    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen([str(path)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.addresses = [int(each, 16) for each in self.process.stdout.readline().split()]
        self.pid = self.process.pid

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def running(build: Build, tmp_path: Path) -> Iterator[Running]:
    path = tmp_path / "prints"
    shutil.copy(build(PRINTS_C, "-O1"), path)
    made = Running(path)
    yield made
    made.end()


@pytest.fixture
def symbolizer() -> Iterator[Symbolizer]:
    made = Symbolizer(Processes())
    yield made
    made.processes.close()


def test_names_and_offsets_are_printed_as_bpftrace_does(running: Running, symbolizer: Symbolizer) -> None:
    main, hidden, malloc = running.addresses
    assert symbolizer.symbol(running.pid, main) == "main+0"
    assert symbolizer.symbol(running.pid, main + 17) == "main+17"
    assert symbolizer.symbol(running.pid, hidden, offset=False) == "hidden"
    assert re.fullmatch(r"(__libc_|__GI___libc_)?malloc\+4", symbolizer.symbol(running.pid, malloc + 4))
    assert symbolizer.symbol(running.pid, 0x10) == "0x10"


def test_a_call_that_never_returns_is_named_by_its_function(running: Running, symbolizer: Symbolizer) -> None:
    main, *_ = running.addresses
    before = symbolizer.symbol(running.pid, main - 1)
    name, _, offset = before.partition("+")
    assert symbolizer.symbol(running.pid, main, returned=True) == (f"{name}+{int(offset) + 1}" if offset else "main+0")
    assert symbolizer.symbol(running.pid, main + 1, returned=True) == "main+1"


def test_addresses_have_a_file_and_a_build_id(running: Running, symbolizer: Symbolizer) -> None:
    path = os.readlink(f"/proc/{running.pid}/exe")
    assert symbolizer.path(running.pid, running.addresses[0]) == path
    found = symbolizer.build_id(running.pid, running.addresses[0])
    listed = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    assert found is not None and f"Build ID: {found[0]}" in listed
    assert (symbolizer.path(running.pid, 0x10), symbolizer.build_id(running.pid, 0x10)) == (None, None)


def test_a_process_that_ended_is_named_from_what_was_remembered(running: Running, symbolizer: Symbolizer) -> None:
    path = os.readlink(f"/proc/{running.pid}/exe")
    symbolizer.processes.remember(running.pid)
    running.end()
    os.unlink(path)
    assert symbolizer.symbol(running.pid, running.addresses[0]) == "main+0"


def test_a_process_that_was_never_seen_gives_addresses(running: Running, symbolizer: Symbolizer) -> None:
    running.end()
    assert symbolizer.symbol(running.pid, running.addresses[0]) == f"{running.addresses[0]:#x}"


def test_a_deleted_program_keeps_its_names(running: Running, symbolizer: Symbolizer) -> None:
    os.unlink(os.readlink(f"/proc/{running.pid}/exe"))
    expected = "main+0" if os.geteuid() == 0 else f"{running.addresses[0]:#x}"
    assert symbolizer.symbol(running.pid, running.addresses[0]) == expected


def test_cpp_names_are_readable(build: Build, symbolizer: Symbolizer) -> None:
    made = Running(build(PRINTS_CC, "-O1", language="c++"))
    try:
        assert symbolizer.symbol(made.pid, made.addresses[0] + 1) == "shop::price(int)+1"
    finally:
        made.end()


def test_libraries_loaded_later_are_found(symbolizer: Symbolizer, build: Build) -> None:
    library = build("int later(int x) { return x; }\n", "-shared", "-fPIC", name="liblater.so")
    symbolizer.processes.remember(os.getpid())
    address = ctypes.cast(ctypes.CDLL(str(library)).later, ctypes.c_void_p).value
    assert address is not None
    symbolizer.processes._processes[os.getpid()].read_at = 0
    assert symbolizer.symbol(os.getpid(), address) == "later+0"


def test_the_kernels_vdso_is_named(symbolizer: Symbolizer) -> None:
    text = Path("/proc/self/maps").read_text()
    found = re.search(r"^([0-9a-f]+)-.*\[vdso\]$", text, re.MULTILINE)
    assert found is not None
    start = int(found[1], 16)
    names = {symbolizer.symbol(os.getpid(), start + at, offset=False) for at in range(0, 4096, 16)}
    assert any("clock_gettime" in name for name in names)


@pytest.fixture
def jit_map() -> Iterator[tuple[int, Path]]:
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    code = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    with mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=code) as memory:
        anchor = ctypes.c_char.from_buffer(memory)
        yield ctypes.addressof(anchor), path
        del anchor
    path.unlink(missing_ok=True)


def test_just_in_time_code_is_named_from_its_map(jit_map: tuple[int, Path], symbolizer: Symbolizer) -> None:
    start, path = jit_map
    path.write_text(f"{start:x} 10 old name\nbroken line\n{start:x} 10 py::f:x.py\n{start + 32:x} 8 second\n")
    assert symbolizer.symbol(os.getpid(), start + 3) == "py::f:x.py+3"
    assert symbolizer.symbol(os.getpid(), start + 33) == "second+1"
    assert symbolizer.symbol(os.getpid(), start + 20) == f"{start + 20:#x}"
    path.write_text(path.read_text() + f"{start + 64:x} 8 third\n")
    assert symbolizer.symbol(os.getpid(), start + 64) == "third+0"


def test_a_map_that_somebody_else_put_there_is_not_believed(jit_map: tuple[int, Path], symbolizer: Symbolizer) -> None:
    start, path = jit_map
    target = Path(f"/tmp/not-perf-{os.getpid()}.map")
    try:
        target.write_text(f"{start:x} 10 forged\n")
        path.symlink_to(target)
        assert symbolizer.symbol(os.getpid(), start) == f"{start:#x}"
        if os.geteuid() == 0:
            path.unlink()
            path.write_text(f"{start:x} 10 forged\n")
            os.chown(path, 65534, 65534)
            assert symbolizer.symbol(os.getpid(), start + 1) == f"{start + 1:#x}"
    finally:
        target.unlink()


def test_a_number_used_again_by_a_later_process_is_another_process(
    running: Running, symbolizer: Symbolizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    symbolizer.processes.remember(running.pid)
    before = symbolizer.processes._processes[running.pid]
    monkeypatch.setattr("tracer.resolve.symbols.processes._started", lambda pid: before.started + 1)
    symbolizer.processes.remember(running.pid)
    assert symbolizer.processes._processes[running.pid] is not before


def test_older_maps_serve_older_addresses(running: Running, symbolizer: Symbolizer) -> None:
    symbolizer.processes.remember(running.pid)
    known = symbolizer.processes._processes[running.pid]
    known.begin(1, ())
    assert symbolizer.symbol(running.pid, running.addresses[0]) == "main+0"
    os.kill(running.pid, signal.SIGCONT)


def test_an_address_means_what_was_mapped_there_when_it_was_hit(build: Build, tmp_path: Path) -> None:
    pid, known = 1 << 30, Processes()  # no process has that number
    placed = []
    for name in ("shop", "depot"):
        path = tmp_path / name
        shutil.copy(build(PRINTS_C, "-O1"), path)
        placed.append(Mapping(0x400000, 0x500000, "r-xp", 0, ("fe:00", path.stat().st_ino), str(path), False))
    known.mapped(pid, placed[0], 10)
    known.executed(pid, 20)
    known.mapped(pid, placed[1], 20)
    process = known.get(pid)
    assert process is not None
    assert [process.image(at).mappings for at in (5, 15, 25, 0)] == [
        (placed[0],), (placed[0],), (placed[1],), (placed[1],)
    ]  # fmt: skip
    address = 0x400800
    assert known.find(pid, process, address) == placed[1]
    assert known.find(pid, process, address, process.image(15)) == placed[0]
    process.see(address, placed[0], 1)
    assert known.find(pid, process, address) == placed[0]
    process.names[0, address] = ("shop", 0)
    process.see(address, placed[1], 2)  # a stack had it again, after the exec
    assert known.find(pid, process, address) == placed[1] and (0, address) not in process.names
    assert [known.find(pid, process, address, state=state) for state in (1, 2, 3)] == [*placed, None]
    assert [known.find(pid, process, address + 8, state=state) for state in (1, 2, 3)] == [*placed, None]
    known.close()


def test_a_file_in_the_place_of_the_one_that_was_mapped_gives_no_names(running: Running) -> None:
    (other,) = [each for each in mappings(running.pid) if each.path.endswith("libc.so.6") and each.executable]
    assert other.file is not None
    gone = replace(other, file=(other.file[0], other.file[1] + (1 << 40)), path="/nowhere/libc.so.6")
    found = Modules()
    assert found.of(running.pid, other) is not None
    assert found.of(running.pid, gone) is None
    found.close()


def test_after_lost_records_only_what_still_runs_has_names(running: Running, symbolizer: Symbolizer) -> None:
    main = running.addresses[0]
    assert symbolizer.symbol(running.pid, main) == "main+0"
    symbolizer.processes.missed()
    assert symbolizer.symbol(running.pid, main) == "main+0"
    symbolizer.processes.missed()
    running.end()
    # It may have become another program before it ended.
    assert symbolizer.symbol(running.pid, main) == f"{main:#x}"


def test_files_and_processes_are_kept_within_bounds(
    build: Build, tmp_path: Path, symbolizer: Symbolizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules, "_MOST_FILES", 4)
    monkeypatch.setattr(processes, "_MOST_PROCESSES", 3)
    paths = [tmp_path / f"prints{number}" for number in range(8)]
    for path in paths:
        shutil.copy(build(PRINTS_C, "-O1"), path)
    made = [Running(path) for path in paths]
    try:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(2):
            for each in made:
                main, hidden, malloc = each.addresses
                assert symbolizer.symbol(each.pid, main) == "main+0"
                assert symbolizer.symbol(each.pid, hidden) == "hidden+0"
                assert "malloc" in symbolizer.symbol(each.pid, malloc)
        assert len(os.listdir("/proc/self/fd")) - before <= 4
        assert (len(symbolizer.processes), len(symbolizer.processes.modules)) == (3, 4)
    finally:
        for each in made:
            each.end()
