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
        int main(int argc, char **argv)
        {
            char room[argc > 1 ? 66000 : 8];
            asm volatile("" : : "r"(room) : "memory");
            for (int i = 0; i < 20; i++) far(argc > 1 ? 3 : 49);
            return 0;
        }
    """)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "far.c", "-o", "far"], cwd=tmp_path, check=True)
    far = tmp_path / "far"
    wanted = Counter({("leaf", *["far"] * 50, "main"): 20})
    program = "uprobe:T:leaf { @[ustack] = count(); }"
    assert stacks("bcc", far, program) == wanted
    assert stacks("ftrace", far, f"config = {{ stack_copy = 65024 }} {program}") == wanted
    fixed = f"config = {{ stack_copy = 16384 }} {program}".replace("T:", f"{far}:")
    done = tracer("-q", "--backend", "ftrace", "-e", fixed, "-c", str(far))
    said = "stacks that do not reach the program's start: 20: the copy of the stack ends"
    assert f"{said}; config = {{ stack_copy = 65024 }} copies more of each" in done.err
    done = tracer("-q", "--backend", "ftrace", "-e", program.replace("T:", f"{far}:"), "-c", f"{far} x")
    assert f"{said}; --backend bcc walks them further" in done.err  # main's frame is longer than any copy


def test_what_a_signal_stops_at_its_first_instruction_has_its_own_name(
    backend: str, tmp_path: Path, clean: None
) -> None:
    (tmp_path / "stopped.c").write_text(r"""
        #define _GNU_SOURCE
        #include <signal.h>
        #include <ucontext.h>
        void before(void), traps(void);
        asm(".type before, @function\nbefore: .cfi_startproc\n ret\n .cfi_endproc\n .size before, . - before\n"
            ".type traps, @function\ntraps: .cfi_startproc\n ud2\n ret\n .cfi_endproc\n .size traps, . - traps\n");
        __attribute__((noinline)) void hit(int number) { asm volatile("" : : "r"(number)); }
        static void handler(int number, siginfo_t *info, void *stopped)
        {
            hit(number);
            ((ucontext_t *)stopped)->uc_mcontext.gregs[REG_RIP] += 2;
        }
        int main(void)
        {
            struct sigaction how = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
            sigaction(SIGILL, &how, 0);
            traps();
            before();
            return 0;
        }
    """)
    subprocess.run(["gcc", "-w", "-O1", "stopped.c", "-o", "stopped"], cwd=tmp_path, check=True)
    found = stacks(backend, tmp_path / "stopped", "uprobe:T:hit { @[ustack] = count(); }")
    assert found == Counter({("hit", "handler", "__restore_rt", "traps", "main"): 1})


def test_probes_of_returns_hide_no_callers(backend: str, tmp_path: Path, clean: None) -> None:
    (tmp_path / "inside.c").write_text(r"""
        __attribute__((noinline)) int hit(int n) { asm volatile(""); return n; }
        __attribute__((noinline)) int inner(int n) { return hit(n) + 1; }
        __attribute__((noinline)) int outer(int n) { return inner(n) + 1; }
        int main(void) { for (int i = 0; i < 9; i++) outer(i); return 0; }
    """)
    subprocess.run(["gcc", "-O1", "inside.c", "-o", "inside"], cwd=tmp_path, check=True)
    inside = tmp_path / "inside"
    program = f"uretprobe:T:outer, uretprobe:{inside}:inner {{ @n = count(); }} uprobe:T:hit {{ @[ustack] = count(); }}"
    assert stacks(backend, inside, program) == Counter({("hit", "inner", "outer", "main"): 9})


def test_a_stack_at_a_ret_is_whole_where_registers_were_popped_before(
    backend: str, tmp_path: Path, clean: None
) -> None:
    (tmp_path / "popped.c").write_text(r"""
        __attribute__((noinline)) int hit(int n) { asm volatile(""); return n; }
        __attribute__((noinline)) int popped(int n)
        {
            asm volatile("" ::: "rbx", "rbp", "r12", "r13");
            return hit(n) + 1;
        }
        __attribute__((noinline)) int outer(int n) { return popped(n) + 1; }
        int main(void) { for (int i = 0; i < 9; i++) outer(i); return 0; }
    """)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "popped.c", "-o", "popped"], cwd=tmp_path, check=True)
    program = "uprobe:T:hit { @n[ustack] = count(); } uretprobe:T:popped { @[ustack] = count(); } END { clear(@n); }"
    assert stacks(backend, tmp_path / "popped", program) == Counter({("popped", "outer", "main"): 9})


@pytest.mark.parametrize("other_room", [1024, 64])
def test_each_program_of_a_process_has_stacks_and_names_of_its_own(
    backend: str, tmp_path: Path, clean: None, other_room: int
) -> None:
    (tmp_path / "turns.c").write_text(r"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        volatile int total;
        __attribute__((noinline)) void hit(int n) { total += n; }
        __attribute__((noinline)) int INNER(int n) { volatile char a[ROOM]; a[n] = n; hit(n); return a[n]; }
        __attribute__((noinline)) int OUTER(int n) { volatile char a[2 * ROOM]; a[n] = n; return INNER(n) + a[n]; }
        int main(int argc, char **argv)
        {
            char left[12];
            sprintf(left, "%d", atoi(argv[2]) - 1);
            for (int i = 0; i < 3; i++) OUTER(i);
            return atoi(argv[2]) ? execl(argv[1], argv[1], argv[0], left, NULL) : 0;
        }
    """)
    for name, room in (("one", 64), ("two", other_room)):  # both at the same addresses; of 64 each stack, too
        macros = (f"-DINNER=inner_{name}", f"-DOUTER=outer_{name}", f"-DROOM={room}", "-fno-stack-protector")
        subprocess.run(["gcc", "-O1", "-static", "-no-pie", *macros, "turns.c", "-o", name], cwd=tmp_path, check=True)
    program = f"uprobe:T:hit, uprobe:{tmp_path}/two:hit {{ @[ustack] = count(); }}"
    found = stacks(backend, tmp_path / "one", program, f"{tmp_path}/two", "19")
    assert found == Counter({("hit", f"inner_{name}", f"outer_{name}", "main"): 30 for name in ("one", "two")})


def test_the_stack_of_a_coroutine_ends_where_that_began(backend: str, tmp_path: Path, clean: None) -> None:
    (tmp_path / "turns.c").write_text(r"""
        #include <ucontext.h>
        static ucontext_t outside, inside;
        static char room[1 << 16];
        __attribute__((noinline)) void hit(int n) { asm volatile("" : : "r"(n)); }
        static void coroutine(void) { for (int i = 0; i < 9; i++) { hit(i); swapcontext(&inside, &outside); } }
        int main(void)
        {
            getcontext(&inside);
            inside.uc_stack.ss_sp = room;
            inside.uc_stack.ss_size = sizeof room;
            inside.uc_link = &outside;
            makecontext(&inside, coroutine, 0);
            for (int i = 0; i < 10; i++) swapcontext(&outside, &inside);
            return 0;
        }
    """)
    subprocess.run(["gcc", "-O1", "turns.c", "-o", "turns"], cwd=tmp_path, check=True)
    program = f"uprobe:{tmp_path}/turns:hit {{ @[ustack] = count(); }}"
    done = tracer("-q", "--backend", backend, "--stacks", "folded", "-e", program, "-c", f"{tmp_path}/turns")
    *callers, count = done.printed.decode().replace(" ", ";").split(";")
    assert (callers[-2:], count, done.err) == (["coroutine", "hit"], "9\n", "")
