"""Semaphores: up while a tracer is attached, and down again however the last one ends."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import ROOT, read_line, target, tell, tracer, tracing, until
from tests.live.answers import maps
from tests.targets.build import build
from tests.targets.symbols import symbol_addresses
from tracer.resolve.binary import Binary

pytestmark = pytest.mark.live


def semaphore(process: subprocess.Popen[bytes], path: Path, name: str) -> int:
    """The 16 bits of a semaphore in a process's memory."""

    def mapped() -> list[str]:
        lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        return [line for line in lines if line.endswith(str(path))]

    until(mapped)  # the process may not have become the program yet
    start = int(mapped()[0].partition("-")[0], 16)
    # A position-independent program: the first mapping of the file is where address 0 lies.
    with open(f"/proc/{process.pid}/mem", "rb") as memory:
        memory.seek(start + symbol_addresses(build("ticker"))[name])
        return int.from_bytes(memory.read(2), "little")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize("whom", ["-p", "everybody"])
def test_a_semaphore_is_up_while_traced_and_down_afterwards(
    whom: str, number: int, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    with target(path, "60", "5") as process:

        def value() -> int:
            return semaphore(process, path, "ticker_tick_semaphore")

        assert value() == 0
        options = ["-p", str(process.pid)] if whom == "-p" else []
        program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
        with tracing(tmp_path, "--backend", backend, *options, "-e", program) as first:
            assert value() > 0
            with tracing(tmp_path, "--backend", backend, *options, "-e", program) as second:
                assert value() > 0
                second.stop()
            assert value() > 0, "the second tracer took the first one's away"
            first.signal(number)
            first.wait()
            until(lambda: value() == 0, what=lambda: f"the semaphore stays at {value()}")
        assert process.poll() is None


def test_all_copies_of_a_library_are_raised_and_lowered(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path, library = place("copies"), place("plug.so")
    program = f"usdt:{library}:plug:hit {{ @ = count(); }}"
    for options in (["-p"], []):
        with target(path, library) as process:
            assert read_line(process) == "ready"
            assert _asked(process, "load") == 0
            whom = [*options, str(process.pid)] if options else []
            home = tmp_path / "-".join(["trace", *options])
            home.mkdir()
            with tracing(home, "--backend", backend, *whom, "-e", program) as running:
                assert _asked(process, "call") == 20
                done = running.stop()
            assert _asked(process, "call") == 0
        assert (done.status, done.text, done.err) == (0, "@: 20\n", "Attached 1 probe\n")


@pytest.mark.parametrize("whom", ["-p", "everybody"])
def test_a_copy_that_is_loaded_later_is_raised_soon_or_it_is_said_and_all_are_lowered(
    whom: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path, library = place("copies"), place("plug.so")
    program = f"usdt:{library}:plug:hit {{ @ = count(); }}"
    with target(path, library) as process:
        assert read_line(process) == "ready"
        options = ["-p", str(process.pid)] if whom == "-p" else []
        with tracing(tmp_path, "--backend", backend, *options, "-e", program) as running:
            assert _asked(process, "load") == 0
            until(lambda: _asked(process, "call") == (20 if options else 10), 10)
            done = running.stop()
        assert _asked(process, "call") == 0
    said = (
        r"the semaphores of a copy were raised \d+ ms later, and its hits before that are not counted"
        if options
        else "the kernel raises the semaphore of one copy alone, and hits of another may be missing"
    )
    loaded = f"Attached 1 probe\ntracer: process {process.pid} loaded {library} more than once"
    assert re.fullmatch(f"{loaded}: {said}\n", done.err)


def _asked(process: subprocess.Popen[bytes], what: str) -> int:
    tell(process, f"{what}\n")
    return int(read_line(process))


def test_a_probe_of_many_sites_and_clauses_raises_its_semaphore(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    with target(path, "60", "5") as process:
        program = f"usdt:{path}:ticker:tick {{ @a = count(); }} usdt:{path}:ticker:* {{ @b = count(); }}"
        with tracing(tmp_path, "--backend", backend, "-e", program) as running:
            assert semaphore(process, path, "ticker_tick_semaphore") >= 1
            running.stop()
        until(lambda: semaphore(process, path, "ticker_tick_semaphore") == 0)


def test_an_address_and_a_probe_with_a_semaphore_at_one_place_count_the_same(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("gated")
    (note,) = Binary(str(path)).usdt
    points = f"uprobe:{path}:{note.address:#x} {{ @address = count(); }} usdt:{path}:gated:t* {{ @probe = count(); }}"
    # All is attached before its first instruction.
    program = f"{points} interval:ms:400 {{ exit(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 2")
    assert done.status == 0, done.err
    found = maps(done)
    assert abs(found["@address"] - found["@probe"]) <= 1 and found["@probe"] > 20


DROPPED_C = """
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#include <stdio.h>
unsigned short gone_evt_semaphore __attribute__((section(".probes"), used));
#define RAISED (*(volatile unsigned short *)&gone_evt_semaphore)
void never(int x) { if (RAISED) STAP_PROBE1(gone, evt, x); }
__attribute__((noinline)) void live(int x) { if (RAISED) STAP_PROBE1(gone, evt, x + 100); }
int main(void) { for (int i = 0; i < 6; i++) live(i); return RAISED ? 3 : 4; }
"""


@pytest.fixture
def in_one_page(tmp_path: Path) -> Path:
    """A program whose semaphore the kernel would raise in the wrong memory."""
    (tmp_path / "a.c").write_text(DROPPED_C)
    flags = ["-O1", "-ffunction-sections", "-Wl,--gc-sections", "-fuse-ld=lld"]
    subprocess.run(["clang", *flags, "a.c", "-o", "a"], cwd=tmp_path, check=True)
    return tmp_path / "a"


def test_a_command_that_lld_linked_has_its_semaphores_up_from_its_first_instruction(
    backend: str, in_one_page: Path, clean: None
) -> None:
    path = in_one_page
    text = f"usdt:{path}:gone:evt {{ @ = count(); @sum = sum(arg0); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", str(path))
    assert (done.status, maps(done)) == (0, {"@": 6, "@sum": 615}), done.err
    assert "1 of 2 sites left out: the linker dropped their code and kept their notes\n" in done.err
    assert f"{path} ended with status 3\n" in done.err
    assert "semaphores raised in process " in done.err


FOLDED_C = """
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
unsigned short icf_one_semaphore __attribute__((section(".probes"), used));
unsigned short icf_two_semaphore __attribute__((section(".probes"), used));
__attribute__((noinline)) int one(int x) { STAP_PROBE1(icf, one, x); __asm__ volatile(""); return x * 7; }
__attribute__((noinline)) int two(int x) { STAP_PROBE1(icf, two, x); __asm__ volatile(""); return x * 7; }
int main(void) { for (int i = 0; i < 5; i++) one(i); for (int i = 0; i < 9; i++) two(i); return 0; }
"""


@pytest.mark.parametrize("points", ["usdt:{}:icf:one usdt:{}:icf:two", "uprobe:{}:one uprobe:{}:two"])
def test_what_the_linker_folded_counts_the_same_on_both_backends_and_is_said(
    points: str, backend: str, tmp_path: Path, clean: None
) -> None:
    (tmp_path / "a.c").write_text(FOLDED_C)
    flags = ["-O1", "-ffunction-sections", "-Wl,--icf=all", "-fuse-ld=lld"]
    subprocess.run(["clang", *flags, "a.c", "-o", "a"], cwd=tmp_path, check=True)
    path = tmp_path / "a"
    one, two = points.format(path, path).split()
    text = f"{one} {{ @one = count(); }} {two} {{ @two = count(); }}"
    done = tracer("--backend", backend, "-f", "json", "-e", text, "-c", str(path))
    assert (done.status, maps(done)) == (0, {"@one": 14, "@two": 14}), done.err
    assert done.err.count("warning: hits of one and two cannot be told apart: the linker made them one place") == 1


def test_semaphores_that_tracer_raises_are_those_of_the_backend_that_runs(in_one_page: Path, clean: None) -> None:
    path = in_one_page
    text = f"usdt:{path}:gone:evt {{ @ = count(); @sum = sum(arg0); }}"
    no_attach = (str(ROOT / "scripts" / "without-bpf"), "--attach")
    done = tracer("-f", "json", "-e", text, "-c", str(path), prefix=no_attach)
    assert (done.status, maps(done)) == (0, {"@": 6, "@sum": 615}), done.err
    assert "tracer: using ftrace, not bcc: " in done.err
    assert "tracer: semaphores raised in process " in done.err and "lowers semaphores" not in done.err


def test_a_semaphore_that_tracer_raised_nowhere_is_the_reason_of_no_hit(
    backend: str, in_one_page: Path, clean: None
) -> None:
    """What -c runs first is `env`, which execs the program."""
    text = f"usdt:{in_one_page}:gone:evt {{ @ = count(); }}"
    done = tracer("--backend", backend, "-e", text, "-c", f"env {in_one_page}")
    assert "tracer: env ended with status 4\n" in done.err  # it reads 0
    assert done.err.endswith(
        "tracer: no probe was hit: its semaphore was raised nowhere: tracer raises it in programs that run when the"
        " trace begins, and in the first that -c runs\n"
    )
