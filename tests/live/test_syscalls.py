"""`tracer syscalls` counts what strace counts, and says what it has not counted."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer

ASKS_32 = """
static long ask(long number, long argument)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(argument) : "memory");
	return result;
}
void _start(void)
{
	for (int i = 0; i < 7; i++) {
		ask(64, 0); /* getppid */
		ask(6, 100 + i); /* close */
	}
	ask(1, 0); /* exit */
}
"""
"""Without a C library: not every machine has one of 32 bits."""

UNSTEADY = {"futex"}
"""Calls that a program makes more or less often as its threads happen to run."""
NOT_COUNTED = (
    "Attached 2 probes\n"
    "tracer: not counted: {} calls without a return: exit and exit_group, or the thread was ended in it;"
    " {} returns without a call: the first of a new thread, or the call began before the trace\n"
)
Counts = dict[str, tuple[int, int]]


@pytest.fixture
def path(place: Callable[[str], Path]) -> Path:
    return place("asks")


def of_strace(path: Path, to: Path) -> Counts:
    """Calls and errors of each, as strace counts them."""
    subprocess.run(["strace", "-f", "-c", "-U", "calls,errors,name", "-o", str(to), str(path)], check=True)
    return rows_of(to.read_text())


def rows_of(table: str) -> Counts:
    rows = [line.split() for line in table.splitlines() if line.lstrip()[:1].isdigit() and not line.endswith(" total")]
    return {row[-1]: (int(row[0]), int(row[1]) if len(row) > 2 else 0) for row in rows}


def counts(text: str) -> tuple[Counts, dict[str, int]]:
    """The same of --json, with the nanoseconds."""
    maps: dict[str, dict[str, object]] = {}
    for line in text.splitlines():
        maps |= json.loads(line)["data"] if line.startswith(('{"type": "map"', '{"type": "quantiles"')) else {}
    errors: dict[str, int] = {}
    for key, count in maps["@errors"].items():
        name = key.rpartition(",")[0]
        errors[name] = errors.get(name, 0) + int(str(count))
    calls = {name: (int(parts["count"]), errors.get(name, 0)) for name, parts in maps["@quantiles"].items()}  # type: ignore[index]
    return calls, {name: int(str(total)) for name, total in maps["@ns"].items()}


def steady(calls: Counts) -> Counts:
    return {name: counted for name, counted in calls.items() if name not in UNSTEADY}


def test_calls_and_errors_are_those_of_strace(backend: str, path: Path, tmp_path: Path) -> None:
    """Threads, children, vfork, calls that fail, and calls that a signal interrupts."""
    done = tracer("syscalls", "--json", "--follow", "--backend", backend, "-c", str(path))
    assert (done.status, done.said) == (0, NOT_COUNTED.format(7, 7))
    calls, ns = counts(done.text)
    assert steady(calls) == steady(of_strace(path, tmp_path / "counts"))
    assert (calls["getppid"], calls["close"][1], calls["execve"]) == ((300, 0), 30, (2, 1))
    # It reads until the first write, and waits four times for as long.
    assert 2 * 140_000_000 < ns["read"] < 5_000_000_000 and 4 * 150_000_000 <= ns["clock_nanosleep"] < 5_000_000_000


def test_calls_of_32_bit_programs_have_their_own_names(backend: str, tmp_path: Path) -> None:
    """As strace has a table of their own for them. The number of a call is that of another one in 64 bits."""
    (tmp_path / "asks32.c").write_text(ASKS_32)
    path, to = tmp_path / "asks32", tmp_path / "counts"
    alone = ("-nostdlib", "-static", "-no-pie", "-fno-pie")
    subprocess.run(["gcc", "-m32", *alone, "-o", str(path), f"{path}.c"], check=True)
    script = f"{path}; {path}; exit 3"
    columns = ("-U", "calls,errors,name", "-o", str(to))
    subprocess.run(["strace", "-f", "-c", *columns, "sh", "-c", script])
    ours, _, theirs = to.read_text().partition("System call usage summary for 32 bit mode:\n")
    calls = counts(tracer("syscalls", "--json", "--follow", "--backend", backend, "-c", f"sh -c '{script}'").text)[0]
    told = rows_of(ours) | {f"i386:{name}": counted for name, counted in rows_of(theirs).items()}
    assert steady(calls) == steady(told)
    assert (calls["i386:getppid"], calls["i386:close"]) == ((14, 0), (14, 14))


def test_what_begins_anew_is_counted_anew(backend: str, path: Path) -> None:
    done = tracer("syscalls", "--backend", backend, "--follow", "-c", f"{path} more")
    rows = {line.split()[-3]: line.split()[-2:] for line in done.text.splitlines() if "RESTART" in line}
    assert rows["clock_nanosleep"] == ["ERESTART_RESTARTBLOCK", "1"]
    assert (rows["pause"], rows["read"]) == (["ERESTARTNOHAND", "1"], ["ERESTARTSYS", "2"])
    assert re.search(r"^ +1 .* restart_syscall$", done.text, re.M)


def test_the_table_has_a_row_for_each_call_and_their_sums(backend: str, path: Path) -> None:
    done = tracer("syscalls", "-q", "--backend", backend, "--by", "probetype", "-c", str(path))
    lines = [re.split(r"  +", line.strip()) for line in done.text.splitlines()]
    assert (lines[0], done.said) == (["calls", "errors", "total", "mean", "p99", "max", "system call"], "")
    sums = lines[-1]
    rows = {line[line.index(name) :][0]: line for line in lines[1:-1] for name in line if name.startswith("trace")}
    assert sums[0] == str(sum(int(row[0]) for row in rows.values())) and sums[-1] == "in all"
    assert (rows["tracepoint, close"][1], rows["tracepoint, close"][-1]) == ("30", "EBADF 30")
    top = tracer("syscalls", "-q", "--backend", backend, "--top", "1", "-c", str(path)).text.splitlines()
    assert len(top) == 3 and top[1].endswith(("  wait4", "  read  ERESTARTSYS 2"))


def test_a_call_under_way_is_told(backend: str) -> None:
    done = tracer("syscalls", "--backend", backend, "-d", "1", "-c", "sleep 77")
    assert "clock_nanosleep" not in done.text
    told = r"tracer: 1 call under way at the end, not counted: clock_nanosleep in thread \d+, for [01]\.\d s\n"
    assert re.search(told, done.said)
