"""USDT sites of a nop and a ten-byte nop: counted on every kernel, and without a trap where the kernel spares it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.lab.kernels import Kernel
from tests.harness.cli import read_line, target, tell, tracing
from tests.harness.warm import Warms
from tracer.resolve.binary import Binary

NOP10 = bytes.fromhex("662e0f1f840000000000")
LEA = bytes.fromhex("488d642480")  # lea -0x80(%rsp),%rsp: what the kernel writes before its call, past the red zone

pytestmark = pytest.mark.usefixtures("clean")


def test_each_hit_counts_and_the_arguments_are_those_of_the_site(
    kernel: Kernel, place: Callable[[str], Path], warms: Warms
) -> None:
    program = place("redzone")
    text = f"usdt:{program}:redzone:ten {{ @ = sum(arg0); }}"
    for backend in kernel.backends:
        done = warms.tracer("-q", "--backend", backend, "-e", text, "-c", f"{program} 1000")
        assert done.text.split() == ["...", "wrong", "0", "@:", f"{sum(range(1000))}"], (backend, done.err)


@pytest.mark.needs("nop10")
def test_the_ten_byte_nop_becomes_a_call(kernel: Kernel, place: Callable[[str], Path], tmp_path: Path) -> None:
    program = place("redzone")
    (note,) = (note for note in Binary(str(program)).usdt if note.name == "ten")
    text = f"usdt:{program}:redzone:ten {{ @ = count(); }}"
    for backend in kernel.backends:
        with target(program, 1000, "wait") as process:
            assert read_line(process) == "ready"
            assert code_of(process.pid, program, note.address) == b"\x90" + NOP10
            with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", text) as running:
                tell(process, "\n")  # one character: it waits for another at its end
                while read_line(process) != "ready":
                    pass
                traced = code_of(process.pid, program, note.address)
                done = running.stop()
            assert (done.text, traced[:6], traced[6:7]) == ("@: 1000\n", b"\x90" + LEA, b"\xe8"), backend


def code_of(pid: int, program: Path, address: int) -> bytes:
    """The eleven bytes at an address of the file in a process."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    start = next(int(line.partition("-")[0], 16) for line in maps if line.endswith(str(program)))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        return os.pread(memory.fileno(), 11, start + address)
