"""`call:`: each call is seen once, with the arguments it was called with and its own result, however it ends: beside
what the program itself counts.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.call_trees import compared
from tests.harness.cli import Done, tracer
from tests.live.answers import maps
from tests.live.conftest import need
from tests.live.ftrace import compiled_c
from tests.targets.build import build, build_go

pytestmark = pytest.mark.live

# Each function's result tells its argument, so that a call that took another's end would be seen.
CALLS = r"""
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <pthread.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define PROBED extern "C" __attribute__((noinline, noclone))
static __thread long n;
static long total;
#define KEPT(x) __asm__ volatile("" : "+r"(x) : : "memory")
PROBED long tree(long a) { n++; long r = a < 2 ? a : tree(a - 1) + tree(a - 2); KEPT(r); return r; }
PROBED long odd(long a);
PROBED long even(long a) { long r = a ? odd(a - 1) + 1 : 0; KEPT(r); return r; }
PROBED long odd(long a) { long r = a ? even(a - 1) + 1 : 0; KEPT(r); return r; }
PROBED long deep(long a) { long r = a ? deep(a - 1) + 1 : 0; KEPT(r); return r; }
static jmp_buf back;
PROBED long jumps(long a) { if (a == 0) longjmp(back, 1); long r = jumps(a - 1) + 1; KEPT(r); return r; }
PROBED long throws(long a)
{
    if (a == 0) throw 1;
    long r;
    try { r = throws(a - 1) + 1; } catch (int) { if (a % 4 != 3) throw; r = a; }
    KEPT(r); return r;
}
PROBED long handled(long a)
{
    if (a > 0) raise(SIGUSR1);
    long r = a + 1000; KEPT(r); return r;
}
static void on_signal(int) { handled(-7); }
static ucontext_t here, fibers[3];
static char stacks[3][65536];
PROBED long turns(long a)
{
    if (a % 10 > 0) { swapcontext(&fibers[a / 10], &here); turns(a - 1); }
    long r = a + 5; KEPT(r); return r;
}
static void fiber(int a) { turns(a); }
PROBED long born(long a)
{
    pid_t child = vfork();
    if (!child) _exit(0);
    waitpid(child, nullptr, 0);
    long r = a * 3; KEPT(r); return r;
}
PROBED long inner(const char *text) { long r = strlen(text); KEPT(r); return r; }
PROBED long fills(char *text) { strcpy(text, "after"); long r = 6; KEPT(r); return r; }
PROBED long waits(const char *why, int times) { while (times < 0) pause(); return *why; }
static void *thread(void *) { tree(10); __atomic_add_fetch(&total, n, __ATOMIC_RELAXED); return nullptr; }
int main(int argc, char **argv)
{
    pthread_t threads[4];
    for (auto &each : threads) pthread_create(&each, nullptr, thread, nullptr);
    for (auto &each : threads) pthread_join(each, nullptr);
    even(11), deep(500);
    for (volatile int i = 0; i < 6; i++) if (!setjmp(back)) jumps(4);
    for (int i = 0; i < 6; i++) try { throws(i); } catch (int) { }
    stack_t other = {};
    other.ss_sp = malloc(other.ss_size = 65536);
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_handler = on_signal, action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, nullptr);
    for (int i = 0; i < 3; i++) handled(i);
    for (int i = 0; i < 3; i++) {
        getcontext(&fibers[i]);
        fibers[i].uc_stack.ss_sp = stacks[i], fibers[i].uc_stack.ss_size = sizeof stacks[i], fibers[i].uc_link = &here;
        makecontext(&fibers[i], (void (*)())fiber, 1, 10 * i + 3);
    }
    for (int round = 0; round < 4; round++)
        for (int i : {0, 2, 1}) swapcontext(&here, &fibers[i]);
    born(2), born(5);
    char text[16] = "before";
    inner(text), fills(text), inner(text);
    printf("%ld\n", total), fflush(stdout);
    if (argc > 1) waits("so long", -3);
    return 0;
}
"""


def fibonacci(a: int) -> int:
    return a if a < 2 else fibonacci(a - 1) + fibonacci(a - 2)


def tree(a: int, calls: dict[int, int]) -> dict[int, int]:
    calls[a] = calls.get(a, 0) + 1
    if a > 1:
        tree(a - 1, calls), tree(a - 2, calls)
    return calls


TREE = tree(10, {})
LEFT = (
    "tracer: {} calls left out: no return, as an exception, a panic, longjmp() or the end of the thread ended it\n"
)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.cc").write_text(CALLS)
    subprocess.run(["g++", "-O1", "-g", "-pthread", "-o", folder / "calls", folder / "calls.cc"], check=True)
    return folder / "calls"


def traced(calls: Path, backend: str, text: str, *more: str) -> Done:
    return tracer("-q", "-f", "json", "--backend", backend, "-c", str(calls), "-e", text, *more)


def test_calls_of_threads_and_recursions_keep_their_arguments_and_results(
    calls: Path, backend: str, clean: None
) -> None:
    done = traced(
        calls, backend,
        f"call:{calls}:tree {{ @tree[arg0, retval] = count(); @n = count(); }}"
        f" call:{calls}:tree {{ @slow[duration + probe_time > 0] = count(); }}"
        f" call:{calls}:even, call:{calls}:odd {{ @both[func, arg0, retval] = count(); }}"
        f" call:{calls}:deep {{ @deep = count(); @sum = sum(depth); if (retval != args.a) {{ @strange = count(); }} }}",
    )  # fmt: skip
    found = maps(done)
    own = next(line for line in done.out.splitlines() if line.isdigit())
    assert (done.err, done.status) == ("", 0)
    assert found["@n"] == int(own) == 4 * sum(TREE.values())
    assert found["@slow"] == {"true": int(own)}
    assert found["@tree"] == {f"{a},{fibonacci(a)}": 4 * times for a, times in TREE.items()}
    assert found["@both"] == {f"{('even', 'odd')[a % 2 == 0]},{a},{a}": 1 for a in range(12)}
    assert (found["@deep"], found["@sum"]) == (501, sum(range(501)))
    assert "@strange" not in found


def test_the_own_times_of_calls_are_the_time_of_the_outermost(calls: Path, backend: str, clean: None) -> None:
    """Of all functions, whichever clause has them; one is in two clauses."""
    done = traced(
        calls, backend,
        f"call:{calls}:even, call:{calls}:odd {{ @own = sum(self_time); if (arg0 == 11) {{ @whole = sum(duration); }}"
        " @least[self_time <= duration] = count(); }"
        f" call:{calls}:deep {{ @own_deep = sum(self_time); @n = count(); }}"
        f" call:{calls}:d* /depth == 0/ {{ @deep = sum(duration + 0); @probes[probe_time > 500] = count(); }}",
    )  # fmt: skip
    found = maps(done)
    assert (found["@least"], found["@n"], found["@probes"]) == ({"true": 12}, 501, {"true": 1})
    # A duration that would be less than 0 is 0: then the own times are more together.
    assert found["@whole"] <= found["@own"] <= found["@whole"] + 12 * 20_000
    assert found["@deep"] <= found["@own_deep"] <= found["@deep"] + 501 * 20_000


def test_calls_that_longjmp_or_an_exception_leaves_are_counted_apart(calls: Path, backend: str, clean: None) -> None:
    jumps = traced(calls, backend, f"call:{calls}:jumps {{ @ = count(); }}")
    assert (maps(jumps), jumps.err) == ({}, LEFT.format(6 * 5))
    throws = traced(calls, backend, f"call:{calls}:throws {{ @[arg0, retval, depth] = count(); }}")
    returned = {"3,3,0": 1, "4,4,0": 1, "3,3,1": 1, "5,5,0": 1, "4,4,1": 1, "3,3,2": 1}
    assert (maps(throws), throws.err) == ({"@": returned}, LEFT.format(1 + 2 + 3 + 3 * 3))


def test_calls_on_other_stacks_are_told_apart(calls: Path, backend: str, clean: None) -> None:
    """In a handler on a stack of its own, in fibers that take turns, and beside a child of vfork()."""
    done = traced(
        calls, backend,
        f"call:{calls}:handled {{ @handled[(int64)arg0, retval, depth] = count(); }}"
        f" call:{calls}:turns {{ @turns[arg0, retval] = count(); }}"
        f" call:{calls}:born {{ @born[arg0, retval] = count(); }}",
    )  # fmt: skip
    found = maps(done)
    assert (done.err, done.status) == ("", 0)
    assert found["@handled"] == {"0,1000,0": 1, "1,1001,0": 1, "2,1002,0": 1, "-7,993,1": 2}
    assert found["@turns"] == {f"{a},{a + 5}": 1 for i in range(3) for a in range(10 * i, 10 * i + 4)}
    assert found["@born"] == {"2,6": 1, "5,15": 1}


def test_memory_is_read_as_the_call_begins_and_after_it_where_that_is_asked(calls: Path, clean: None) -> None:
    begun = f"call:{calls}:inner, call:{calls}:fills {{ @[func, str(arg0), retval] = count(); }}"
    wanted = {"@": {"inner,before,6": 1, "fills,before,6": 1, "inner,after,5": 1}}
    assert maps(traced(calls, "bcc", begun)) == maps(traced(calls, "ftrace", begun)) == wanted
    text = "str(args.text), after(str(args.text)), after(str(args.text, retval))"
    after = f"call:{calls}:fills {{ @[{text}] = count(); }}"
    assert maps(traced(calls, "bcc", after)) == {"@": {"before,after,after": 1}}
    refused = traced(calls, "ftrace", after).err
    assert "str() is not available with ftrace: at a return the kernel reads memory at registers of then" in refused


GUARDED = r"""
struct pair { long number; const char *text; };
__attribute__((noinline, noclone)) int maybe(struct pair *p, const char *name)
{
    __asm__ volatile("" : "+r"(p), "+r"(name) : : "memory");
    return p ? 1 : 0;
}
int main(void)
{
    struct pair pair = {5, "five"};
    for (int i = 0; i < 6; i++) maybe(i % 2 ? &pair : 0, i % 3 ? "name" : (char *)8);
    return 0;
}
"""


def test_memory_is_read_only_where_the_clause_asks_for_it(backend: str, tmp_path: Path, clean: None) -> None:
    """As far as the arguments tell; elsewhere the call is left out, and counted."""
    path = compiled_c(tmp_path / "guarded", GUARDED, "-O1", "-g")

    def said(clause: str) -> tuple[object, bool]:
        done = traced(path, backend, f"call:{path}:maybe {clause}")
        return maps(done), "could not be read" in done.err

    five = {"5,five": 3}
    assert said("{ if (args.p != 0) { @[args.p->number, str(args.p->text)] = count(); } else { @n = count(); } }") == (
        {"@": five, "@n": 3}, False,
    )  # fmt: skip
    assert said("/args.p && retval/ { @[args.p->number, str(args.p->text)] = count(); }") == ({"@": five}, False)
    early = "if (!args.p) { @n = count(); return; } @[args.p->number, str(args.p->text)] = count();"
    assert said(f"{{ {early} }}") == ({"@": five, "@n": 3}, False)
    assert said("{ @[arg0 && args.p->number == 4 + retval] = count(); }") == ({"@": {"true": 3, "false": 3}}, False)
    assert said("{ @[arg0 ? args.p->number + retval : -1] = count(); }") == ({"@": {"6": 3, "-1": 3}}, False)
    assert said("{ @[str(args.name)] = count(); }") == ({"@": {"name": 4}}, True)


def test_a_call_under_way_is_told_with_its_age_and_arguments(calls: Path, backend: str, clean: None) -> None:
    text = f"call:{calls}:waits {{ @[str(args.why), args.times] = count(); }}"
    done = tracer("--backend", backend, "-d", "1", "-c", f"{calls} wait", "-e", text)
    told = r'tracer: 1 call had not ended: waits\(args.times = -3, str\(args.why\) = "so long"\) in thread \d+, begun'
    assert re.search(rf"{told} \d\.\d s before the end\n", done.err), done.err
    assert "left out" not in done.err


def test_one_start_for_each_thread_is_warned_of_where_a_function_calls_itself(calls: Path) -> None:
    idiom = (
        f"uprobe:{calls}:NAME {{ @start[tid] = nsecs; }}"
        f" uretprobe:{calls}:NAME /@start[tid]/ {{ @ = max(nsecs - @start[tid]); delete(@start, tid); }}"
    )
    told = (
        "warning: @start[tid] keeps one call of each thread, but even calls itself: of calls inside each other only the"
        " innermost is timed right; call:FILE:even { … duration … } times each\n"
    )
    assert tracer("check", "-e", idiom.replace("NAME", "even")).err.count(told) == 1
    assert "keeps one call" not in tracer("check", "-e", idiom.replace("NAME", "inner")).err


BUSY = r"""
#include <pthread.h>
#include <unistd.h>
#define PROBED __attribute__((noinline, noclone))
#define KEPT(x) __asm__ volatile("" : "+r"(x) : : "memory")
PROBED long nested(long a) { long r = a ? nested(a - 1) + 1 : 0; KEPT(r); return r; }
static void *work(void *p) { for (;;) nested(5); return p; }
int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, work, 0);
    for (;;) pause();
}
"""


def test_no_call_is_taken_for_one_that_was_left_as_a_trace_of_a_busy_process_begins_and_ends(
    backend: str, tmp_path: Path, clean: None
) -> None:
    path = compiled_c(tmp_path / "busy", BUSY, "-O1", "-pthread")
    with subprocess.Popen([path]) as process:
        text = f"call:{path}:nested {{ @[arg0, retval] = count(); }}"
        done = tracer("-q", "-f", "json", "--backend", backend, "-d", "0.5", "-p", str(process.pid), "-e", text)
        process.kill()
    found = maps(done)
    assert found["@"].keys() == {f"{a},{a}" for a in range(6)}
    assert max(found["@"].values()) - min(found["@"].values()) <= 2 * 3
    assert "no return" not in done.err, done.err


def test_calls_of_go_are_told_apart_on_stacks_that_move_and_threads_that_change(
    backend: str, tmp_path: Path, clean: None
) -> None:
    need(shutil.which("go"), "Go")
    path = Path(shutil.copy(build_go("goroutines"), tmp_path / "goroutines"))
    done = traced(
        path, backend,
        f"call:{path}:main.fib {{ @fib[arg0, retval] = count(); @own = sum(self_time);"
        " if (depth == 0) { @whole = sum(duration); } }"
        f" call:{path}:main.safe {{ @safe[arg0, retval] = count(); }}"
        f" call:{path}:main.grow {{ @grow[arg0 == retval] = count(); @deep = sum(depth); }}"
        f" call:{path}:main.risky {{ @risky = count(); }}",
    )  # fmt: skip
    found, calls = maps(done), tree(8, {})
    assert found["@fib"] == {f"{n},{fibonacci(n)}": 8 * times for n, times in calls.items()}
    # A duration that would be less than 0 is 0: then the own times are more together.
    assert found["@whole"] <= found["@own"] <= found["@whole"] + 8 * sum(calls.values()) * 20_000
    assert (found["@grow"], found["@deep"]) == ({"true": 8 * 301}, 8 * sum(range(301)))
    assert found["@safe"] == {f"{n},{10 * n}": 1 for n in range(4)}
    assert "@risky" not in found and done.err == LEFT.format(1 + 2 + 3 + 4)


WORKS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define PROBED __attribute__((noinline, noclone))
static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
static long rounds;
PROBED long works(long a)
{
    for (volatile long i = 0; i < rounds; i++) ;
    long r = a < 2 ? a : works(a - 1) + works(a - 2);
    __asm__ volatile("" : "+r"(r));
    return r;
}
int main(int count, char **words)
{
    long shortest = 1L << 60;
    for (rounds = atol(words[1]); shortest == 1L << 60 || count > 2; count--)
        for (int i = 0; i < 200; i++) {
            long begun = now();
            works(6);
            long took = now() - begun;
            shortest = took < shortest ? took : shortest;
        }
    printf("%ld\n", shortest);
    return 0;
}
"""


@pytest.mark.clock
def test_a_recursive_function_is_timed_as_it_runs_untraced(backend: str, tmp_path: Path, clean: None) -> None:
    """By the shortest of 200 runs: most are interrupted on a busy machine. It is never less."""
    path = compiled_c(tmp_path / "works", WORKS, "-O1")
    text = f"call:{path}:works /depth == 0/ {{ @ = min(duration); @whole = min(duration + probe_time); }}"
    for rounds in ("3000", "10000"):
        untraced = int(subprocess.run([path, rounds], capture_output=True, check=True).stdout)
        command = f"{path} {rounds}"
        found = maps(tracer("-q", "-f", "json", "--backend", backend, "-c", command, "-e", text))
        assert found["@whole"] > 3 * untraced, (found, untraced)
        assert 0.99 * untraced < found["@"] < 1.3 * untraced + 0.15 * (found["@whole"] - untraced), (found, untraced)


SPINS = r"""
#include <time.h>
#define PROBED __attribute__((noinline, noclone))
static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}
PROBED long inner(long a) { __asm__ volatile("" : "+r"(a)); return a; }
PROBED long outer(long a)
{
    for (long i = 0; i < 300; i++) inner(i);
    for (long end = now() + 1000000; now() < end;) ;
    __asm__ volatile("" : "+r"(a));
    return a;
}
int main(void)
{
    for (int i = 0; i < 100; i++) outer(i);
    return 0;
}
"""


def test_no_time_of_the_programs_own_is_taken_off_with_that_of_many_calls_inside(
    backend: str, tmp_path: Path, clean: None
) -> None:
    path = compiled_c(tmp_path / "spins", SPINS, "-O1")
    text = f"call:{path}:outer {{ @whole = min(duration); @own = min(self_time); }}"
    text += f" call:{path}:inner {{ @n = count(); }}"
    found = maps(tracer("-q", "-f", "json", "--backend", backend, "-c", str(path), "-e", text))
    assert found["@n"] == 300 * 100
    assert found["@whole"] >= found["@own"] >= 1_000_000, found


TAILS = r"""
#define TOP(name) ".globl " name "\n.type " name ",@function\n" name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " name ",.-" name "\n"
__asm__(".text\n" TOP("again") "test %rdi,%rdi\nje 1f\nsub $1,%rdi\njmp again\n1: ret\n" END("again")
        TOP("first") "add $1,%rdi\njmp last\n" END("first") TOP("last") "lea 5(%rdi),%rax\nret\n" END("last"));
long again(long), first(long), last(long);
int main(void)
{
    for (int i = 0; i < 4; i++) again(i), first(i), last(i + 20);
    return 0;
}
"""


def test_random_trees_of_calls_are_told_as_they_were(backend: str, tmp_path: Path, clean: None) -> None:
    """A sample: `scripts/attack/call_trees` does as many as it is told."""
    found = compared(build("call-trees"), backend, 1, 60, tmp_path / "said")
    assert found.wrong == () and found.returned > 2000 and found.abandoned > 100
    assert found.beyond < 0.05 * found.returned


def test_random_trees_of_calls_of_go_are_told_as_they_were(backend: str, tmp_path: Path, clean: None) -> None:
    """Those move with their stacks, and from thread to thread."""
    need(shutil.which("go"), "Go")
    found = compared(build_go("call_trees"), backend, 1, 40, tmp_path / "said", go=True)
    assert found.wrong == () and found.returned > 1500 and found.abandoned > 30
    assert found.beyond < 0.05 * found.returned


def test_a_tail_call_ends_with_the_call_that_it_leads_to(backend: str, tmp_path: Path, clean: None) -> None:
    path = compiled_c(tmp_path / "tails", TAILS)
    text = f"call:{path}:first, call:{path}:last {{ @[func, arg0, retval] = count(); }}"
    done = tracer("-q", "-f", "json", "--backend", backend, "-c", str(path), "-e", text)
    wanted = {f"first,{a},{a + 6}": 1 for a in range(4)}
    wanted |= {f"last,{a},{a + 5}": 1 for a in (*range(1, 5), *range(20, 24))}
    assert (maps(done), done.err) == ({"@": wanted}, "")
    refused = tracer("--backend", backend, "-c", str(path), "-e", f"call:{path}:again {{ @ = count(); }}")
    assert "again jumps to its own beginning, where a call of it and a round of a loop look alike" in refused.err


def test_a_call_that_began_before_the_trace_is_said_to_be_left_out(calls: Path, backend: str, clean: None) -> None:
    """The first lasts longer than it takes to attach: what ends meanwhile is not told of."""
    code = "import time\ntime.sleep(2)\nfor _ in range(30): time.sleep(0.4)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        text = "call:libc:clock_nanosleep { @ = count(); @slow = min(duration); } interval:s:3 { exit(); }"
        done = tracer("--backend", backend, "-p", str(process.pid), "-e", text)
        process.kill()
    assert "tracer: 1 call left out: its end was seen, but not its beginning: the probe there was not" in done.err
    assert re.search(r"@: [1-7]\n@slow: (39|4\d)\d{7}\n", done.text), done.text


LEAVES = r"""
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
__attribute__((noinline,noclone)) long leaves(long n)
{
    __asm__ volatile("" : "+r"(n) : : "memory");
    if (n) pthread_exit(0);
    return n + 1;
}
static void *run(void *p) { leaves((long)p); return 0; }
int main(int c, char **v)
{
    long times = atol(v[1]), i;
    for (i = 0; i < times; i++) { pthread_t t; pthread_create(&t, 0, run, (void *)1); pthread_join(t, 0); }
    for (i = 0; i < 100; i++) leaves(0);
    return 0;
}
"""


def test_calls_that_their_threads_end_in_leave_room_for_others(backend: str, tmp_path: Path, clean: None) -> None:
    """More than can be noted at a time."""
    (tmp_path / "leaves.c").write_text(LEAVES)
    leaves = tmp_path / "leaves"
    subprocess.run(["gcc", "-O1", "-pthread", "-o", leaves, f"{leaves}.c"], check=True)
    text = f"call:{leaves}:leaves {{ @[arg0, depth] = count(); }}"
    done = tracer("-q", "-f", "json", "--backend", backend, "-c", f"{leaves} 17000", "-e", text)
    assert maps(done) == {"@": {"0,0": 100}}
    assert done.err.count("17000 calls left out: no return") == 1 and "room" not in done.err, done.err


ENDS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static char *self;
__attribute__((noinline, noclone)) long goes(long n)
{
    __asm__ volatile("" : "+r"(n) : : "memory");
    if (n == 1) execl(self, self, getpid() == gettid() ? "again" : "done", (char *)0);
    if (n == 2) pthread_exit(0);
    if (n == 3) { if (!fork()) return 33; wait(0); }
    if (n == 4) exit(0);
    return n + 10;
}
static void *run(void *p) { return (void *)goes((long)p); }
static void in_thread(long n)
{
    pthread_t thread;
    pthread_create(&thread, 0, run, (void *)n);
    pthread_join(thread, 0);
}
int main(int count, char **words)
{
    self = *words;
    if (count == 1) { goes(0); if (goes(3) == 33) _exit(0); goes(1); }
    if (words[1][0] != 'a') return 0;
    goes(0), in_thread(2), in_thread(0);
    if (!fork()) goes(4);
    wait(0);
    if (!fork()) in_thread(1);
    wait(0);
    return 0;
}
"""


def test_calls_that_end_with_their_thread_process_or_program_are_around_no_others(
    backend: str, tmp_path: Path, clean: None
) -> None:
    """A thread ends in a call, a process does, an exec of the main thread and of another; and a child returns from the
    call of its parent.
    """
    path = compiled_c(tmp_path / "ends", ENDS, "-O1", "-pthread")
    text = f"call:{path}:goes {{ @[arg0, retval, depth] = count(); }}"
    done = tracer("-q", "-f", "json", "--backend", backend, "--follow", "-c", str(path), "-e", text)
    assert maps(done) == {"@": {"0,10,0": 3, "3,13,0": 1}}
    unseen, left = done.err.splitlines()
    assert unseen.startswith("tracer: 1 call left out: its end was seen, but not its beginning"), unseen
    assert left.startswith("tracer: 4 calls left out: no return"), left
