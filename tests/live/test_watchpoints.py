"""Watched memory, on both backends, beside the program's own count of what it writes; and clauses at a signal."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tell, tracer, tracing, without_overhead
from tests.targets.build import build

pytestmark = pytest.mark.parametrize("backend", ["bcc", "ftrace"])

COUNTERS = build("counters")
NO_PIE = build("counters-nopie")


def place(program: Path, name: str) -> int:
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(f" {name}"))


def run(backend: str, text: str, command: str, *more: str) -> tuple[str, str]:
    """What the command says, and the maps; nothing is complained of."""
    done = tracer("--backend", backend, *more, "-c", command, "-e", text)
    assert (done.status, re.sub(r"Attached \d+ probes?\n", "", without_overhead(done.err))) == (0, "")
    said, _, maps = done.text.partition("\n")
    return said, maps


@pytest.mark.parametrize("program", [COUNTERS, NO_PIE])
def test_each_write_of_a_variable_by_threads_that_come_is_a_hit(backend: str, program: Path) -> None:
    text = f"watchpoint:{program}:counter:w {{ @ = count(); @main[tid == pid] = count(); }}"
    assert run(backend, text, f"{program} 6") == ("26", "@: 26\n@main[true]: 5\n@main[false]: 21\n")


def test_an_address_is_watched_and_reads_are_hits_where_they_are_asked_for(backend: str) -> None:
    """Each bump reads and writes once, and the last line reads once more."""
    address = place(NO_PIE, "counter")
    text = f"w:{address:#x}:4:w {{ @w = count(); }} w:{address:#x}:4:rw {{ @rw = count(); }}"
    assert run(backend, text, f"{NO_PIE} 2") == ("8", "@rw: 17\n@w: 8\n")


def test_an_instruction_is_watched_too(backend: str) -> None:
    assert run(backend, f"w:{place(NO_PIE, 'bump'):#x}:8:x {{ @ = count(); }}", f"{NO_PIE} 3") == ("11", "@: 11\n")


def test_each_of_several_is_told_in_every_thread(backend: str) -> None:
    names = ("counter", "pair.second", "cells[1]")
    points = ", ".join(f"w:{COUNTERS}:{name}:w" for name in names)
    said, maps = run(backend, f"{points} {{ @[probe, probetype] = count(); }}", f"{COUNTERS} 3")
    assert said == "11" and set(maps.splitlines()) == {
        f"@[watchpoint:{COUNTERS}:{name}:w, watchpoint]: {times}"
        for name, times in zip(names, (11, 1, 1), strict=True)
    }


def test_the_stack_is_that_of_the_writer(backend: str) -> None:
    said, maps = run(backend, f"w:{COUNTERS}:counter:w {{ @[ustack(2)] = count(); }}", f"{COUNTERS} 4")
    writers: Counter[tuple[str, ...]] = Counter()
    for frames, times in re.findall(r"@\[\n((?: +.*\n)+)\]: (\d+)", maps):
        writers[tuple(line.partition("+")[0] for line in frames.split())] += int(times)
    assert (said, writers) == ("15", {("bump", "main"): 5, ("bump", "run"): 10})


def test_the_children_count_where_they_are_followed_and_else_not(backend: str) -> None:
    text = f"w:{COUNTERS}:counter:w {{ @[pid == cpid] = count(); }}"
    assert run(backend, text, f"{COUNTERS} 1 3") == ("6", "@[true]: 6\n")
    assert run(backend, text, f"{COUNTERS} 1 3", "--follow") == ("6", "@[true]: 6\n@[false]: 9\n")


def test_a_value_is_the_one_that_was_written(backend: str) -> None:
    address = place(NO_PIE, "counter")
    text = f"w:{address:#x}:4:w {{ @ = max(*(uint32 *){address:#x}); @sum = sum(*(uint32 *){address:#x}); }}"
    if backend == "bcc":
        assert run(backend, text, f"{NO_PIE} 3") == ("11", "@: 11\n@sum: 66\n")
        return
    done = tracer("--backend", backend, "-c", f"{NO_PIE} 3", "-e", text)
    assert (done.status, done.text) == (1, "")
    assert (
        f"error: not available with ftrace at watchpoint:{address:#x}:4:w: a sample holds no memory of the program;"
        " --backend bcc can read it"
    ) in done.err


def test_running_processes_are_watched_where_each_has_it(backend: str, tmp_path: Path) -> None:
    with target(COUNTERS, 2, 0, "wait") as one, target(COUNTERS, 4, 0, "wait") as other:
        assert read_line(one) == read_line(other) == "ready"
        text = f"w:{COUNTERS}:counter:w {{ @[pid] = count(); }}"
        with tracing(tmp_path, "--backend", backend, "-p", f"{one.pid},{other.pid}", "-e", text) as trace:
            tell(one)
            tell(other)
            done = trace.wait()
        assert set(done.text.split("\n\n\n")[-1].splitlines()[-2:]) == {f"@[{one.pid}]: 8", f"@[{other.pid}]: 15"}


def test_what_nobody_writes_is_told(backend: str) -> None:
    done = tracer("--backend", backend, "-c", f"{COUNTERS} 1", "-e", f"w:{COUNTERS}:quiet:w {{ @ = count(); }}")
    assert (done.status, done.text, done.err) == (0, "6\n", "Attached 1 probe\ntracer: no probe was hit\n")


def test_a_watch_that_ends_as_another_program_takes_the_memory_is_told(backend: str) -> None:
    text = f"w:{place(NO_PIE, 'counter'):#x}:4:w {{ @ = count(); }}"
    done = tracer("--backend", backend, "-c", f"sh -c 'exec {NO_PIE} 1'", "-e", text)
    assert (done.status, done.text) == (0, "6\n") and re.fullmatch(
        r"Attached 1 probe\ntracer: process \d+ runs another program, and its watchpoints ended with the one before:"
        r" trace that program itself\ntracer: no probe was hit\n", done.err,
    )  # fmt: skip
    done = tracer("--backend", backend, "--follow", "-c", f"sh -c '{NO_PIE} 1; {NO_PIE} 2; true'", "-e", text)
    assert (done.status, done.text, done.err) == (
        0, "6\n8\n",
        "Attached 1 probe\ntracer: watchpoints ended in 2 descendants that ran another program\n"
        "tracer: no probe was hit\n",
    )  # fmt: skip


def test_who_cannot_be_watched_is_told_in_a_line(backend: str) -> None:
    done = tracer("--backend", backend, "-e", f"w:{COUNTERS}:quiet:w {{ }}")
    assert done.status == 1 and done.err.endswith(
        " error: a watchpoint is in the memory of a process, and none is named;"
        " name it with -p PID, or start it with -c COMMAND\n"
    )
    done = tracer("--backend", backend, "-c", "/bin/true", "-e", f"w:{COUNTERS}:quiet:w {{ }}")
    assert done.status == 1 and re.search(
        rf" error: process \d+ has not loaded {COUNTERS}, so watchpoint:{COUNTERS}:quiet:w has no address there;"
        r" trace it with -p once it has\n$", done.err,
    )  # fmt: skip


def test_the_four_registers_are_free_again_behind_each_end(backend: str) -> None:
    wide = place(NO_PIE, "wide") & -8
    four = " ".join(f"w:{wide + 8 * number:#x}:8:w {{ @a{number} = count(); }}" for number in range(4))
    for _ in range(2):
        done = tracer("--backend", backend, "-c", f"{NO_PIE} 1", "-e", four)
        assert done.status == 0 and done.text.startswith("6\n")
    done = tracer("--backend", backend, "-c", f"{NO_PIE} 1", "-e", f"{four} w:{wide + 32:#x}:8:w {{ @n = count(); }}")
    assert (done.status, done.text) == (1, "") and (
        " cannot be watched: no debug register is free: a processor has 4, for all who watch a thread; watch"
    ) in done.err


def test_a_rate_that_is_too_high_ends_the_watch(backend: str) -> None:
    text = f"w:{COUNTERS}:counter:w {{ @ = count(); }}"
    done = tracer("--backend", backend, "--max-rate", "100", "-c", f"{COUNTERS} 250", "-e", text)
    assert done.status == 0 and f"{5 + 125 * 251}\n" in done.text
    assert re.search(r"warning: detached: \d+ hits in [\d.]+ s are more than --max-rate 100", done.err)


def test_a_signal_to_tracer_runs_the_clauses_for_it(backend: str, tmp_path: Path) -> None:
    text = "self:signal:SIGUSR1 { @n++; print((probe, probetype, @n)); if (@n == 2) { exit(); } } END { @n++; }"
    text += f" uprobe:{COUNTERS}:bump {{ @hits = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-e", text) as trace:
        for number in (1, 2):
            trace.signal(signal.SIGUSR1)
            trace.wait_for_output(b"special, %d)" % number)
        done = trace.wait()
    lines = "".join(f"(self:signal:SIGUSR1, special, {number})\n" for number in (1, 2))
    assert (done.status, done.text) == (0, f"{lines}@n: 3\n")
