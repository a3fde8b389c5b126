"""Files that the traced program names or writes, to hold up the tracer."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.harness.cli import target, tracing

pytestmark = [pytest.mark.live, pytest.mark.clock]

CALLS = """
import ctypes, mmap, os, sys, time
libc, anonymous = ctypes.CDLL(None), mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
place = ctypes.addressof(ctypes.c_char.from_buffer(anonymous))
path = f"/tmp/perf-{os.getpid()}.map"
if len(sys.argv) > 2:
    with open(path, "w") as file:
        file.truncate(int(sys.argv[2]))  # zeros, which no line ends
        file.seek(0, 2)
        file.write(f"\\n{place:x} 40 {'long' * 750_000}\\n")
while True:
    libc.labs(ctypes.c_long(place))
    libc.strlen(sys.argv[1].encode() + bytes(1))
    time.sleep(0.01)
"""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


def test_a_fifo_that_the_program_names_holds_up_neither_the_trace_nor_its_end(
    backend: str, fifo: Path, tmp_path: Path, clean: None
) -> None:
    program = f'uprobe:libc:strlen /str(arg0) == "{fifo}"/ {{ @n++; cat("%s", str(arg0)); }}'
    with (
        target(sys.executable, "-c", CALLS, fifo) as traced,
        tracing(tmp_path, "--backend", backend, "-e", program, "-p", str(traced.pid)) as running,
    ):
        running.wait_for(f"ERROR: failed to open file '{fifo}' (not a regular file)\n" * 3)
        begun = time.monotonic()
        done = running.stop()
        assert time.monotonic() - begun < 5
    assert done.status == 0 and int(done.out.removeprefix(b"@n: ")) >= 3


def test_a_huge_map_of_just_in_time_code_costs_little_and_its_names_are_cut(
    backend: str, tmp_path: Path, clean: None
) -> None:
    program = 'uprobe:libc:labs { printf("%s\\n", usym(arg0)); }'
    with target(sys.executable, "-c", CALLS, "x", str(1 << 30)) as traced:
        try:
            with tracing(tmp_path, "--backend", backend, "-e", program, "-p", str(traced.pid)) as running:
                running.wait_for_output(b"long" * 256 + "…\n".encode())
                begun = time.monotonic()
                done = running.stop()
                assert time.monotonic() - begun < 5
            map_file = f"/tmp/perf-{traced.pid}.map"
            said = f"tracer: {map_file} is too long: functions that its last 64 MiB do not name have no names\n"
            assert said in done.err
            assert set(done.out.splitlines()) == {b"long" * 256 + "…".encode()}
        finally:
            Path(f"/tmp/perf-{traced.pid}.map").unlink(missing_ok=True)
