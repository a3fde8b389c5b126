"""Stacks of programs without frame pointers, on both backends, against what the programs know of themselves."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.live

DEEP_C = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
volatile long total;
__attribute__((noinline)) void hit(long x) { total += x; asm volatile(""); }
__attribute__((noinline)) long deeper(int depth, long x)
{
    char room[40];
    room[x & 31] = x;
    asm volatile("" : : "r"(room) : "memory");
    if (!depth) { hit(x); return 1; }
    return deeper(depth - 1, x) + room[0];
}
static void handler(int number) { deeper(2, number); }
int main(int argc, char **argv)
{
    long rounds = atol(argv[1]);
    signal(SIGUSR1, handler);
    for (long i = 0; i < rounds; i++) deeper(3 + (i & 3), i);
    for (int i = 2; i < argc; i++) {
        if (fork() == 0) { char *again[] = {argv[0], argv[i], NULL}; execv(argv[0], again); }
    }
    raise(SIGUSR1);
    return 0;
}
"""
STACK = re.compile(rb"@\[\n(.*?)\n\]: (\d+)", re.DOTALL)


@pytest.fixture(scope="module", params=[("-O2",), ("-O2", "-no-pie", "-Wl,-z,norelro"), ("-O2", "-static")], ids=str)
def deep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deep")
    (folder / "deep.c").write_text(DEEP_C)
    omitted = ("-fomit-frame-pointer", "-fno-optimize-sibling-calls")
    subprocess.run(["gcc", "-w", *omitted, *request.param, "deep.c", "-o", "deep"], cwd=folder, check=True)
    return folder / "deep"


def stacks(backend: str, deep: Path, program: str, *words: str, follow: bool = False) -> Counter[tuple[str, ...]]:
    """How often there was each stack, with the names of its functions alone, out of that of `main`'s caller."""
    flags = ["--follow"] if follow else []
    argv = " ".join(map(str, (deep, *words)))
    done = tracer("-q", "--backend", backend, *flags, "-e", program.replace("T:", f"{deep}:"), "-c", argv)
    assert (done.status, done.err) == (0, "")
    found: Counter[tuple[str, ...]] = Counter()
    for frames, count in STACK.findall(done.printed):
        names = [line.decode().strip().rpartition("+")[0] for line in frames.splitlines()]
        assert names[-1] == "_start", names  # each stack is whole
        found[tuple(names[: names.index("main") + 1])] += int(count)
    return found


def expected(rounds: int) -> Counter[tuple[str, ...]]:
    """What the program does."""
    wanted = Counter({("hit", *["deeper"] * (4 + depth), "main"): rounds // 4 for depth in range(4)})
    return wanted if rounds else Counter()


def in_handler(found: Counter[tuple[str, ...]]) -> int:
    """Takes out what was hit while a signal was handled; how often that was."""
    signalled = [names for names in found if "handler" in names]
    assert all(names[:5] == ("hit", *["deeper"] * 3, "handler") for names in signalled)
    return sum(found.pop(names) for names in signalled)


def test_every_hit_is_counted_under_its_whole_stack(backend: str, deep: Path, clean: None) -> None:
    found = stacks(backend, deep, "uprobe:T:hit { @[ustack] = count(); }", "4000")
    assert in_handler(found) == 1
    assert found == expected(4000)


def test_processes_that_fork_and_exec(backend: str, deep: Path, clean: None) -> None:
    found = stacks(backend, deep, "uprobe:T:hit { @[ustack] = count(); }", "400", "400", "800", follow=True)
    assert in_handler(found) == 3
    assert found == expected(1600)


def test_frames_that_are_not_wanted_are_left_out(backend: str, deep: Path, clean: None) -> None:
    done = tracer(
        "-q", "--backend", backend, "-e", f'uprobe:{deep}:hit {{ printf("%s|", ustack(2)); }}', "-c", f"{deep} 300"
    )
    texts = re.sub(rb"\+\d+", b"", done.printed).replace(b" ", b"").split(b"|")
    assert texts[:-1] == [b"\nhit\ndeeper\n"] * 301


@pytest.mark.parametrize("mode", ["perf", "raw", "build_id"])
def test_modes_show_the_same_frames(backend: str, deep: Path, clean: None, mode: str) -> None:
    program = f'uprobe:{deep}:hit {{ printf("%s|%s|", ustack(raw, 2), ustack({mode}, 2)); exit(); }}'
    raw, shown, *_ = tracer("-q", "--backend", backend, "-e", program, "-c", f"{deep} 300").printed.decode().split("|")
    hit, deeper = raw.split()
    if mode == "raw":
        assert shown == raw
    elif mode == "perf":
        assert re.fullmatch(rf"\n\t{hit} hit\+0 \({deep}\)\n\t{deeper} deeper\+\d+ \({deep}\)\n", shown)
    else:
        listed = subprocess.run(["readelf", "-n", deep], capture_output=True, text=True, check=True).stdout
        lines = [line.split() for line in shown.split("\n") if line]
        assert len(lines) == 2 and all(f"Build ID: {build_id}" in listed for build_id, _ in lines)
        assert int(lines[1][1], 16) - int(lines[0][1], 16) == int(deeper, 16) - int(hit, 16)


def test_frame_pointers_alone_where_that_is_asked_for(backend: str, deep: Path, clean: None) -> None:
    program = f"config = {{ stack_unwind = fp }} uprobe:{deep}:hit {{ @[ustack] = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", f"{deep} 400")
    assert done.status == 0
    assert b"main" not in done.printed


def test_a_stack_of_fifty_kilobytes(tmp_path: Path) -> None:
    (tmp_path / "far.c").write_text(r"""
        #include <string.h>
        __attribute__((noinline)) int leaf(int n) { asm volatile(""); return n; }
        __attribute__((noinline)) int far(int n)
        {
            char room[1000];
            memset(room, n, sizeof room);
            asm volatile("" : : "r"(room) : "memory");
            return (n ? far(n - 1) : leaf(3)) + room[3];
        }
        int main(void) { for (int i = 0; i < 20; i++) far(49); return 0; }
    """)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "far.c", "-o", "far"], cwd=tmp_path, check=True)
    far = tmp_path / "far"
    wanted = Counter({("leaf", *["far"] * 50, "main"): 20})
    program = "uprobe:T:leaf { @[ustack] = count(); }"
    assert stacks("bcc", far, program) == wanted
    assert stacks("ftrace", far, f"config = {{ stack_copy = 65024 }} {program}") == wanted
    done = tracer("-q", "--backend", "ftrace", "-e", program.replace("T:", f"{far}:"), "-c", str(far))
    said = "stacks that do not reach the program's start: 20: the copy of the stack ends; raise stack_copy"
    assert said in done.err
    short = f"config = {{ stack_copy = 4096 }} {program}".replace("T:", f"{far}:")
    done = tracer("-q", "--backend", "bcc", "-e", short, "-c", str(far))
    assert f"{said}, now 4096" in done.err
