"""`span:PROBE..PROBE`: what lies between two probes, in a thread or by a key, beside what the program itself counts."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import tracer, tracing
from tests.live.answers import maps
from tests.live.conftest import need
from tests.live.ftrace import compiled_c

pytestmark = pytest.mark.live

PROGRAM = r"""
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <sys/sdt.h>
#define PROBED __attribute__((noinline, noclone))
#define KEPT(x) __asm__ volatile("" : "+r"(x) : : "memory")
static void nested(long n)
{
    DTRACE_PROBE1(spans, enter, n);
    if (n > 0) nested(n - 1);
    if (n == 2) nested(0);
    DTRACE_PROBE2(spans, leave, -n, n * 10);
}
static int queue[2];
static void *worker(void *p)
{
    long id;
    while (read(queue[0], &id, sizeof id) == sizeof id) DTRACE_PROBE2(spans, done, id, 2 * id);
    return p;
}
static void *dies(void *p) { DTRACE_PROBE1(spans, enter, 99); return p; }
static void text(char *s)
{
    DTRACE_PROBE1(spans, text__start, s);
    strcpy(s, "after");
    DTRACE_PROBE1(spans, text__done, s);
}
PROBED long opened(long n) { KEPT(n); return n + 1; }
PROBED long closed(long n) { KEPT(n); return n + 2; }
int main(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 5; i++) nested(3);
    if (pipe(queue)) return 1;
    for (int i = 0; i < 2; i++) pthread_create(threads + i, 0, worker, 0);
    for (long id = 1; id <= 40; id++) {
        DTRACE_PROBE1(spans, start, id);
        if (write(queue[1], &id, sizeof id) != sizeof id) return 1;
    }
    DTRACE_PROBE1(spans, start, 77);
    close(queue[1]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    DTRACE_PROBE2(spans, leave, 5, 6);
    pthread_create(threads, 0, dies, 0);
    pthread_join(*threads, 0);
    char s[16] = "before";
    text(s);
    for (int i = 0; i < 3; i++) opened(i), usleep(i ? 0 : 3000), closed(10 * i);
    return 0;
}
"""


REUSES = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/sdt.h>
#include <unistd.h>
__attribute__((noinline,noclone)) void one(long leave)
{
    DTRACE_PROBE1(reuse, start, leave);
    if (leave) _exit(0);
    DTRACE_PROBE1(reuse, stop, leave);
}
__attribute__((noinline,noclone)) void stray(void) { DTRACE_PROBE1(reuse, stop, 7L); }
int main(void)
{
    pid_t tid = 0;
    for (int i = 0; i < 4; i++) {
        struct clone_args args; memset(&args, 0, sizeof args);
        args.exit_signal = SIGCHLD;
        if (tid) args.set_tid = (unsigned long)&tid, args.set_tid_size = 1;
        long p = syscall(SYS_clone3, &args, sizeof args);
        if (p < 0) { return 1; }
        if (!p) { if (i < 2) one(1); if (i == 2) stray(); one(0); _exit(0); }
        tid = p;
        waitpid(p, 0, 0);
    }
    return 0;
}
"""


def test_what_a_thread_began_and_did_not_end_is_forgotten_with_it(backend: str, tmp_path: Path, clean: None) -> None:
    """Four threads have one number after each other. Two end inside a span, and an end of the third has no start."""
    reuses = compiled_c(tmp_path / "reuses", REUSES, "-O1")
    text = f"span:usdt:{reuses}:reuse:start..usdt:{reuses}:reuse:stop {{ @[arg0, after(arg0), depth] = count(); }}"
    done = tracer("-f", "json", "--backend", backend, "--follow", "-c", str(reuses), "-e", text)
    assert maps(done) == {"@": {"0,0,0": 2}}
    assert done.err == (
        "Attached 2 probes\n"
        "tracer: 1 end of spans left out: no start was seen before, as it came before the trace, or is not what the"
        " span names\n"
        "tracer: 2 spans left out: the thread has ended, and no end of it was seen\n"
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_c(tmp_path_factory.mktemp("spans") / "spans", PROGRAM, "-O1", "-g", "-pthread")


def test_spans_of_a_thread_lie_inside_each_other(program: Path, backend: str, clean: None) -> None:
    """The last that has started ends first. A start without an end, and an end without a start, are told apart."""
    text = (
        f"span:usdt:{program}:spans:enter..usdt:{program}:spans:leave"
        " { @[arg0, after(arg0), after(arg1), depth] = count(); @longer[duration > 0] = count(); }"
    )
    done = tracer("-f", "json", "--backend", backend, "-c", str(program), "-e", text)
    wanted = {"3,-3,30,0": 5, "2,-2,20,1": 5, "1,-1,10,2": 5, "0,0,0,3": 5, "0,0,0,2": 5}
    assert maps(done) == {"@": wanted, "@longer": {"true": 25}}
    assert done.err == (
        "Attached 2 probes\n"
        "tracer: 1 end of spans left out: no start was seen before, as it came before the trace, or is not what the"
        " span names\n"
        "tracer: 1 span left out: the thread has ended, and no end of it was seen\n"
    )


def test_a_span_from_a_place_to_itself_goes_from_hit_to_hit(program: Path, backend: str, clean: None) -> None:
    """A wildcard's places too that start and end."""
    for end in ("opened", "op*ned"):
        text = f"span:uprobe:{program}:opened..uprobe:{program}:{end}"
        text += " { @[arg0, after(arg0), depth] = max(duration); }"
        found = maps(tracer("-f", "json", "--backend", backend, "-c", str(program), "-e", text))["@"]
        assert set(found) == {"0,1,0", "1,2,0"} and found["0,1,0"] >= 3_000_000, found


def test_spans_that_cross_threads_are_found_by_a_key(program: Path, backend: str, clean: None) -> None:
    text = (
        f"span:usdt:{program}:spans:start..usdt:{program}:spans:done by (pid, arg0)"
        " { @[after(arg1) == 2 * arg0] = count(); @sum = sum(arg0); @depth[depth] = count(); }"
    )
    done = tracer("-f", "json", "--backend", backend, "-c", str(program), "-e", text)
    assert maps(done) == {"@": {"true": 40}, "@sum": 40 * 41 // 2, "@depth": {"0": 40}}
    told = (
        rf"Attached 2 probes\ntracer: 1 span had not ended: usdt:{program}:spans:start\.\.usdt:{program}:spans:done"
        r"\(pid = \d+, arg0 = 77\), begun \d+\.\d m?s before the end\n"
    )
    assert re.fullmatch(told, done.err), done.err


def test_a_span_reads_memory_at_its_start_and_after_it(program: Path, backend: str, clean: None) -> None:
    between = f"span:usdt:{program}:spans:text__start..usdt:{program}:spans:text__done"
    done = tracer(
        "-f", "json", "--backend", backend, "-c", str(program),
        "-e", f"{between} {{ @[str(arg0), after(str(arg0))] = count(); }}",
    )  # fmt: skip
    assert (maps(done), done.err) == ({"@": {"before,after": 1}}, "Attached 2 probes\n")


def test_a_span_goes_from_a_function_to_the_return_of_another(program: Path, backend: str, clean: None) -> None:
    text = f"span:uprobe:{program}:opened..uretprobe:{program}:closed CODE"
    code = "{ @[args.n, retval, func] = count(); }"
    done = tracer("-f", "json", "--backend", backend, "-c", str(program), "-e", text.replace("CODE", code))
    assert maps(done) == {"@": {f"{n},{10 * n + 2},closed": 1 for n in range(3)}}
    slow = "/duration > 2ms/ { @[arg0] = count(); }"
    done = tracer("-f", "json", "--backend", backend, "-c", str(program), "-e", text.replace("CODE", slow))
    assert maps(done)["@"]["0"] == 1


def test_a_predicate_that_holds_for_no_call_and_no_span_is_told(program: Path, backend: str, clean: None) -> None:
    """A call is hit where it begins and where it ends, and counts once."""
    text = (
        f"call:{program}:opened /retval == 77/ {{ @calls = count(); }}"
        f" span:usdt:{program}:spans:text__start..usdt:{program}:spans:text__done /depth > 5/ {{ @spans = count(); }}"
    )
    done = tracer("--backend", backend, "-c", str(program), "-e", text)
    assert done.err == (
        "Attached 3 probes\n"
        f"tracer: call:{program}:opened was hit 3 times, and its predicate never held\n"
        f"tracer: usdt:{program}:spans:text__done was hit once, and its predicate never held\n"
    )


REFUSED = (
    ("{PROBE}:enter { @ = count(); }", "a span has two probes, with two dots between them"),
    ("{PROBE}:enter..interval:s:1 { }", "a span is between two probes, and interval is none that is hit once"),
    ("{PROBE}:enter..{PROBE}:leave, BEGIN { @ = count(); }", "a span stands alone in its clause"),
    ("{PROBE}:enter..{PROBE}:nope { @ = count(); }", "no USDT probe 'spans:nope'"),
    ("{PROBE}:enter..{PROBE}:leave by ustack { @ = count(); }", "this cannot be the key of a span"),
    ("{PROBE}:enter..{PROBE}:leave { @ = max(self_time); }", "self_time is known of calls, not of spans"),
    ("{PROBE}:enter..{PROBE}:leave { @ = max(arg1); }", "arg1 does not exist"),
    ("{PROBE}:enter..{PROBE}:leave { @ = max(after(vars.n)); }", "vars is not known in a span"),
    ("{PROBE}:enter..{PROBE}:leave { @ = max(retval); }", "retval is not known"),
)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_no_span_can_be_is_said(program: Path, text: str, message: str) -> None:
    done = tracer("check", "-e", f"span:{text.replace('{PROBE}', f'usdt:{program}:spans')}")
    assert done.status == 1 and message in done.err


COLLECTS = """
import gc, sys, time
gc.disable()
runs = [0, 0, 0]
def count(phase, info):
    runs[info["generation"]] += phase == "stop"
gc.callbacks.append(count)
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    gc.collect(number % 3)
print(*runs, flush=True)
sys.stdin.readline()
"""


def test_the_runs_of_pythons_collector_are_spans(backend: str, tmp_path: Path, clean: None) -> None:
    python = Path("/usr/bin/python3.11")
    need(python.exists(), "Debian's Python 3.11")
    point = f"usdt:{python}:python:gc"
    text = f"span:{point}__start..{point}__done {{ @[arg0] = count(); @ns = min(duration); }}"
    with subprocess.Popen([python, "-S", "-c", COLLECTS], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        command = ["-f", "json", "--backend", backend, "-p", str(process.pid)]
        with tracing(tmp_path, *command, "-e", text) as running:
            process.stdin.write("\n"), process.stdin.flush()
            runs = list(map(int, process.stdout.readline().split()))
            done = running.stop()
        process.kill()
    assert runs == [7, 7, 6]
    assert maps(done)["@"] == {str(generation): times for generation, times in enumerate(runs)}
    assert maps(done)["@ns"] > 100
