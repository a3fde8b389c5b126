"""The commands for the usual questions: what they count is what the program did, and what their own program counts."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from tests.harness.cli import tracer
from tests.harness.real_programs import commands, counted
from tests.harness.terminal import on_a_terminal

THREADS, CALLS = 4, 250
HITS = THREADS * CALLS
Place = Callable[[str], Path]


def both(backend: str, path: Path, *words: str) -> str:
    """What a command prints on `threads`, which is what the program that it shows prints."""
    of_trace = ("-q", "--backend", backend, "-c", f"{path} {THREADS} {CALLS}")
    done = tracer(*words, *of_trace)
    assert (done.status, done.said) == (0, "")
    shown = tracer(*words, "--show").printed.decode()
    assert tracer(*of_trace, "-e", shown).printed == done.printed
    return done.text.replace("done\n", "").strip()


@pytest.fixture
def path(place: Place) -> Path:
    return place("threads")


def test_count_counts_what_the_program_did(backend: str, path: Path) -> None:
    assert both(backend, path, "count", f"{path}:work", f"usdt:{path}:threads:hit", "--by", "probetype") == (
        f"@[uprobe]: {HITS}\n@[usdt]: {HITS}"
    )
    assert both(backend, path, "count", f"{path}:wor*", "--by", "arg0", "--filter", "arg1 < 100 && arg0 != 2") == (
        "@[0]: 100\n@[1]: 100\n@[3]: 100"
    )
    by_result = both(backend, path, "count", f"{path}:work", "--by", "retval / 1000000", "--top", "2")
    assert by_result == f"@[2]: {CALLS}\n@[3]: {CALLS}"


def test_count_counts_the_calls_of_an_interpreter(backend: str) -> None:
    calls = "import ctypes; labs = ctypes.CDLL(None).labs; [labs(n % 7) for n in range(77)]"
    of_trace = ("-q", "--backend", backend, "-c", f"{sys.executable} -c '{calls}'")
    lines = tracer("count", "libc:labs", "--by", "retval", *of_trace).text.split("\n")
    assert sorted(line for line in lines if line) == [f"@[{n}]: 11" for n in range(7)]


def test_hist_has_percentiles_of_the_same_values(backend: str, path: Path) -> None:
    """245 for 247, which is within 1/64."""
    shown = both(backend, path, "hist", f"usdt:{path}:threads:hit", "arg1")
    head, _, last = shown.rpartition("\n")
    assert last == f"@quantiles: {{ .count = {HITS}, .p50 = 124, .p90 = 225, .p99 = 245, .p99.9 = 249, .max = 249 }}"
    counts = [int(line.split("|")[0].split()[-1]) for line in head.splitlines() if "|" in line]
    assert counts == [4 * n for n in (1, 1, 2, 4, 8, 16, 32, 64, 122)]


def test_latency_is_what_the_program_measures(backend: str) -> None:
    calls = (
        "import ctypes, time; usleep = ctypes.CDLL(None).usleep; times = []\n"
        "for us in (2000, 2000, 30000, 40000):\n"
        "    start = time.monotonic_ns(); usleep(us); times.append(time.monotonic_ns() - start)\n"
        "print(times)"
    )
    of_trace = ("-q", "--json", "--backend", backend, "-c", f"{sys.executable} -c '{calls}'")
    by_value = tracer("latency", "libc:usleep", "--by", "arg0", *of_trace)
    lines = by_value.text.splitlines()
    took = json.loads(next(line for line in lines if line.startswith("[")))
    found = [json.loads(line)["data"]["@quantiles"] for line in lines if '"@quantiles"' in line]
    of_each = {int(key): value for key, value in found[0].items()}
    assert {us: value["count"] for us, value in of_each.items()} == {2000: 2, 30000: 1, 40000: 1}
    for us, own in ((2000, max(took[:2])), (30000, took[2]), (40000, took[3])):
        assert us * 1000 <= of_each[us]["max"] <= own
    slow = tracer("latency", "libc:usleep", "--slower", "15ms", "--filter", "arg0 != 40000", *of_trace)
    (call,) = [each["data"] for line in slow.text.splitlines() if '"value"' in line for each in [json.loads(line)]]
    assert 30_000_000 <= call["duration"] < 10**9 and list(call["args"].values()) == [30000]


def test_args_and_trace_have_a_line_for_each_hit(backend: str, path: Path) -> None:
    of_trace = ("-q", "--backend", backend, "-c", f"{path} {THREADS} {CALLS}")
    called = [(n, i) for n in range(THREADS) for i in range(CALLS)]

    def seen(pattern: str, *words: str) -> list[tuple[int, ...]]:
        shown = tracer("args", f"{path}:work", *words, *of_trace).text.replace("done\n", "")  # the program says so
        return sorted(tuple(map(int, numbers)) for numbers in re.findall(pattern, shown, re.M))

    arguments = r"\.args = \{ \.thread = (\d+), \.i = (\d+) \}"
    ended = seen(rf"{arguments}, \.retval = (\d+), \.duration = \d+ \}}$", "--filter", "duration >= 0")
    stacks = seen(rf"{arguments}, \.retval = (\d+), \.duration = \d+, \.stack = \n +body\+", "-s")
    assert ended == stacks == [(n, i, n * 1_000_000 + i) for n, i in called]
    assert seen(rf"{arguments} \}}$", "--entry") == called
    words = ("trace", f"{path}:work", 'n "%d"', "arg1", "--filter", "arg0 == 1")
    text = tracer(*words, *of_trace).text.replace("done\n", "")
    lines = [line for line in text.splitlines() if " n " in line]
    assert [line.split(maxsplit=2)[2] for line in lines] == [f'threads          work n "{i}"' for i in range(CALLS)]


def test_stacks_are_counted_or_weighed(backend: str, path: Path) -> None:
    of_trace = ("-q", "--backend", backend, "-c", f"{path} {THREADS} {CALLS}")
    weighed = ("flame", "--probe", f"{path}:work", "--weight", "arg1")
    for words, whole in (("stacks", f"{path}:work"), HITS), (weighed, THREADS * sum(range(CALLS))):
        lines = tracer(*words, "--stacks", "folded", *of_trace).text.replace("done\n", "").split("\n")
        assert sum(int(line.rpartition(" ")[2]) for line in lines if line) == whole
        assert all(line.rpartition(" ")[0].endswith("body;work") for line in lines if line)


@pytest.mark.parametrize(
    "name, program",
    [("count", "PHP"), ("hist", "dd"), ("latency", "PHP"), ("args", "dd"), ("trace", "PHP"), ("stacks", "dd")],
)
def test_each_command_counts_what_a_real_program_says_of_itself(
    backend: str, name: str, program: str, tmp_path: Path
) -> None:
    """`scripts/attack/commands` asks more programs, and all of each."""
    (work,) = [work for work in commands(30, tmp_path) if work.program == program]
    assert counted(backend, name, work) == (30, 30)


def test_the_intervals_of_a_count_have_every_hit_once(backend: str, path: Path) -> None:
    """dd says itself how much it wrote."""
    command = "dd if=/dev/zero of=/dev/null bs=1 count=20000"
    words = ("--filter", "arg0 == 1 && arg2 == 1", "-q", "--json", "--backend", backend, "-c", command)
    done = tracer("count", "libc:write", "-i", "50ms", *words)
    counts = [each["data"]["@"] for each in map(json.loads, done.text.splitlines()) if each["type"] == "map"]
    assert "20000 bytes" in done.said and sum(counts) == 20000 and len(counts) > 2


def test_so_many_prints_end_a_count(backend: str, path: Path) -> None:
    done = tracer("count", f"{path}:work", "-i", "100ms", "-n", "2", "-q", "--backend", backend)
    assert done.text.count("@: 0\n") == 2


def test_a_line_on_a_terminal_tells_how_it_goes_and_goes_away(backend: str, path: Path) -> None:
    words = ("count", f"{path}:work", "-i", "100ms", "-n", "3", "--backend", backend)
    terminal = {"TERM": "xterm"}
    status, shown = on_a_terminal(*words, env=terminal)
    assert status == 0
    assert b"\r\x1b[Kattached at 1 place, 0 hits, 0 s left, nothing lost\r\x1b[K" in shown
    after = [piece for piece in shown.split(b"\r\x1b[K") if piece and not piece.startswith(b"attached at")]
    assert b"".join(after).count(b"@: 0\n") == 3 and b"attached at" not in b"".join(after)
    assert b"attached at" not in shown.rpartition(b"\r\x1b[K")[2]
    assert b"\x1b" not in on_a_terminal(*words, "-q", env=terminal)[1]
    with_its_own = on_a_terminal(*words, "-c", "echo mine", env=terminal)[1]
    assert with_its_own.startswith(b"Attached 3 probes\nmine\n")  # as it writes it
    assert tracer(*words).said.startswith("Attached 3 probes\n")


def test_the_line_counts_hits_as_they_come_and_gives_way_to_the_results_of_ctrl_c(backend: str, path: Path) -> None:
    """The program says itself how often it hits; a trace of all processes does not end with it."""
    program = subprocess.Popen(
        [path, str(THREADS), str(CALLS), "wait"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    with program:
        status, shown = on_a_terminal(
            "count", f"{path}:work", "--backend", backend, env={"TERM": "xterm"},
            deeds=[
                (b"attached at 1 place, 0 hits, ", lambda tracer: print(file=program.stdin, flush=True)),
                (b"attached at 1 place, 1000 hits, ", lambda tracer: tracer.send_signal(signal.SIGINT)),
            ],
        )  # fmt: skip
        program.communicate("")
    assert status == 0
    line, _, results = shown.rpartition(b"\r\x1b[K")
    assert line.rpartition(b"\r\x1b[K")[2].endswith(b" s, Ctrl-C ends, nothing lost")
    assert results.strip() == b"@: 1000" and b"\x1b" not in results


@pytest.mark.clock
def test_a_command_starts_within_60_ms_of_its_program(path: Path) -> None:
    """Of CPU, which other work on the machine does not lengthen as much."""

    def ms(*words: str) -> float:
        before = getrusage(RUSAGE_CHILDREN)
        assert tracer(*words, *of_trace).status == 0
        after = getrusage(RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    of_trace = ("-q", "--backend", "ftrace", "-c", f"{path} 1 1")
    shown = tracer("hist", f"{path}:work", "arg0", "--show").printed.decode()
    times = [(ms("hist", f"{path}:work", "arg0"), ms("-e", shown)) for _ in range(4)]
    assert min(command for command, _ in times) < min(program for _, program in times) + 60, times
