"""On ftrace copies of stacks grow where stacks go on behind them, and no hit counts twice or is missing meanwhile."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import Done, read_line, target, tell, tracer, tracing
from tests.live.answers import maps
from tests.live.ftrace import compiled_c
from tests.live.test_flood import RUNS, WHOLE, busy, told

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

THREADS, EACH = 4, 4000
DEEP_C = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long each, pause_us;
__attribute__((noinline)) void hit(long number) { asm volatile("" : : "r"(number)); }
static void some(long first, long number)
{
    for (long i = 0; i < number; i++) {
        hit(first + i);
        if (pause_us && i % 16 == 0) usleep(pause_us);
    }
}
__attribute__((noinline)) int deeper(int frames, long first)
{
    char room[1000];
    memset(room, frames, sizeof room);
    asm volatile("" : : "r"(room) : "memory");
    if (frames) return deeper(frames - 1, first) + room[3];
    some(first, each / 2);
    return room[3];
}
static void *run(void *first)
{
    some((long)first, each / 2);
    deeper(39, (long)first + each / 2);
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t made[16];
    int threads = atoi(argv[1]);
    each = atol(argv[2]);
    pause_us = atol(argv[3]);
    if (argc > 4) { puts("ready"); fflush(stdout); getchar(); }
    for (long i = 0; i < threads; i++) pthread_create(&made[i], NULL, run, (void *)(i * each));
    for (long i = 0; i < threads; i++) pthread_join(made[i], NULL);
    if (argc > 4) { puts("done"); fflush(stdout); getchar(); }
    return 0;
}
"""


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("deep") / "deep"
    return compiled_c(path, DEEP_C, "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-pthread", "-w")


def program(deep: Path) -> str:
    return f"config = {{ max_map_keys = 200000 }} uprobe:{deep}:hit {{ @[ustack] = count(); @hits[arg0] = count(); }}"


def by_end(done: Done) -> tuple[int, int]:
    """How many hits had a whole stack of the recursion, and how many one that was cut."""
    found = {True: 0, False: 0}
    for frames, count in maps(done)["@"].items():
        if frames.count("deeper+") >= 8:
            found["start_thread" in frames] += count
    return found[True], found[False]


def assert_each_hit_once(done: Done, number: int) -> None:
    """Each hit has a number of its own."""
    hits = maps(done)["@hits"]
    twice = {key: count for key, count in hits.items() if count != 1}
    assert not twice
    assert sum(maps(done)["@"].values()) == len(hits)
    # Of what finds no room while descriptors are exchanged both samples are told.
    assert number <= len(hits) + told(done) <= number + (20 if told(done) else 0)


def test_a_stack_of_forty_kilobytes_that_begins_midway(deep: Path, clean: None) -> None:
    words = ("-v", "--backend", "ftrace", "-f", "json", "-e", program(deep))
    whole: list[bool] = []
    with busy():
        while len(whole) < RUNS and whole.count(True) < WHOLE:
            done = tracer(*words, "-c", f"{deep} {THREADS} {EACH} 12000", timeout=120)
            assert_each_hit_once(done, THREADS * EACH)
            deep_ones, cut = by_end(done)
            whole.append(deep_ones > THREADS * EACH // 4 and not told(done))
            grown = re.search(r"copies of stacks grew (\d+) times, to 65024 bytes", done.err)
            assert grown and grown[1] == "2" if whole[-1] else cut
    assert whole.count(True) >= WHOLE, f"{by_end(done)} {done.err}"


@contextmanager
def waiting(deep: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with target(deep, *words, "wait") as process:
        read_line(process)
        yield process


@pytest.mark.parametrize("scope", ["of a process", "of a process and its children", "of all"])
def test_threads_that_begin_later(deep: Path, tmp_path: Path, clean: None, scope: str) -> None:
    with waiting(deep, str(THREADS), str(EACH), "12000") as process:
        whom = [] if scope == "of all" else ["-p", str(process.pid)]
        follow = ["--follow"] if "children" in scope else []
        words = ("-v", "--backend", "ftrace", "-f", "json", *whom, *follow, "-e", program(deep))
        with tracing(tmp_path, *words) as running:
            tell(process)
            read_line(process)
            done = running.stop()
    assert_each_hit_once(done, THREADS * EACH)
    whole, _ = by_end(done)
    assert whole > THREADS * EACH // 4, done.err


@pytest.mark.clock
def test_a_flood_is_not_made_worse(deep: Path, clean: None) -> None:
    """Where tracer cannot keep up, copies are as at first, and each hit is counted or told as lost."""
    words = ("-v", "--backend", "ftrace", "-f", "json", "-e", program(deep))
    done = tracer(*words, "-c", f"{deep} 4 40000 0", timeout=120)
    assert_each_hit_once(done, 160_000)
    assert "copies of stacks grew" not in done.err or "became 16384 again" in done.err or not told(done)


def test_a_size_that_is_given_stays(deep: Path, clean: None) -> None:
    fixed = program(deep).replace("{ max", "{ stack_copy = 16384; max", 1)
    done = tracer("-v", "--backend", "ftrace", "-f", "json", "-e", fixed, "-c", f"{deep} 1 2000 12000")
    assert_each_hit_once(done, 2000)
    assert by_end(done) == (0, 1000)
    assert "grew" not in done.err


def test_beside_stacks_of_the_kernel(deep: Path, clean: None) -> None:
    both = program(deep).replace("@[ustack]", "@[kstack, ustack]")
    done = tracer("-v", "--backend", "ftrace", "-f", "json", "-e", both, "-c", f"{deep} 2 2000 12000")
    assert_each_hit_once(done, 4000)
    assert by_end(done)[0] > 1000 and "copies of stacks grew 2 times" in done.err


def test_descendants_of_a_command_keep_what_they_inherited(deep: Path, clean: None) -> None:
    words = ("-v", "--backend", "ftrace", "-f", "json", "--follow", "-e", program(deep))
    done = tracer(*words, "-c", f"{deep} 1 2000 12000")
    assert_each_hit_once(done, 2000)
    assert by_end(done) == (0, 1000)
    assert "config = { stack_copy = 65024 } copies more of each" in done.err


def test_texts_beside_stacks(deep: Path, clean: None) -> None:
    body = "@[str(arg0), comm, ustack(1)] = count();"
    words = ("-q", "--backend", "ftrace", "--stacks", "folded", "-e", f"uprobe:libc:puts {{ {body} }}")
    done = tracer(*words, "-c", f"{deep} 1 2 0 wait")
    lines = done.printed.replace(b"_IO_", b"").split(b"\n")
    assert {b"ready;deep;puts 1", b"done;deep;puts 1"} <= set(lines)
