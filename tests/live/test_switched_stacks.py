"""Programs in which functions are suspended while others run on the same thread: a return probe would end them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tracer, tracing
from tests.live.ftrace import compiled_c

pytestmark = pytest.mark.live

COROUTINES = r"""
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
static ucontext_t here, coroutine[2];
static int current;
static volatile long sum;
__attribute__((noinline)) void wait_turn(void) { int me = current; swapcontext(&coroutine[me], &here); }
__attribute__((noinline)) long work(long x) { wait_turn(); __asm__ volatile(""); return x * 2; }
static void body(int number)
{
    for (int i = 0; i < 50; i++) sum += work(i * 10 + number);
    for (;;) wait_turn();
}
int main(void)
{
    char *stacks = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 2; i++) {
        getcontext(&coroutine[i]);
        coroutine[i].uc_stack.ss_sp = stacks + i * (1 << 19);
        coroutine[i].uc_stack.ss_size = 1 << 19;
        makecontext(&coroutine[i], (void (*)(void))body, 1, i);
    }
    for (int turn = 0; turn < 120; turn++)
        for (int i = 0; i < 2; i++) {
            current = turn & 1 ? i : 1 - i;
            swapcontext(&here, &coroutine[current]);
        }
    printf("%ld\n", sum);
    return 0;
}
"""

# Its handlers' stack lies above that of the thread which they interrupt.
ALTERNATE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
enum { SIZE = 1 << 20 };
static volatile long sum;
__attribute__((noinline)) long handle(long x) { __asm__ volatile(""); return x + 1; }
static void handler(int number) { sum += handle(number) - number; }
__attribute__((noinline)) long work(long x) { raise(SIGUSR1); __asm__ volatile(""); return x * 2; }
static void *body(void *above)
{
    stack_t stack = {.ss_sp = above, .ss_size = SIZE};
    sigaltstack(&stack, 0);
    for (int i = 0; i < 100; i++) sum += work(i);
    return 0;
}
int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    char *stacks = mmap(0, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    sigaction(SIGUSR1, &action, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stacks, SIZE);
    pthread_create(&thread, &attributes, body, stacks + SIZE);
    pthread_join(thread, 0);
    printf("%ld\n", sum);
    return 0;
}
"""

# PyObject_IsTrue() waits in many greenlets by turns.
GREENLETS = """
import sys
import greenlet
main = greenlet.getcurrent()
class Waits:
    def __bool__(self):
        main.switch()
        return True
def body(number):
    for _ in range(10):
        not Waits()
for line in iter(sys.stdin.readline, ""):
    tasks = [greenlet.greenlet(body) for _ in range(3)]
    for turn in range(30):
        for task in tasks if turn % 2 else tasks[::-1]:
            if not task.dead:
                task.switch(0)
    print("switched", flush=True)
"""


def test_returns_in_coroutines_are_counted_and_the_program_lives(backend: str, tmp_path: Path, clean: None) -> None:
    path = compiled_c(tmp_path / "coroutines", COROUTINES)
    program = f"uretprobe:{path}:work {{ @n = count(); @s = sum(retval); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", str(path))
    total, _, maps = done.text.partition("\n")
    assert (done.status, done.err, maps.strip()) == (0, "", f"@n: 100\n@s: {total}")


def test_a_handler_on_a_stack_above_the_thread_s_does_no_harm(backend: str, tmp_path: Path, clean: None) -> None:
    path = compiled_c(tmp_path / "alternate", ALTERNATE, "-pthread")
    program = f"uretprobe:{path}:work {{ @n = count(); }} uretprobe:{path}:handle {{ @h = count(); }}"
    done = tracer("-q", "--backend", backend, "-e", program, "-c", str(path))
    assert (done.status, done.err, done.text.split()) == (0, "", ["10000", "@h:", "100", "@n:", "100"])


def test_a_python_with_greenlet_has_no_return_probes(backend: str, tmp_path: Path, clean: None) -> None:
    path = Path(sys.executable).resolve()
    with target(sys.executable, "-c", GREENLETS) as process:
        assert process.stdin is not None

        def switch() -> str:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            return read_line(process)

        assert switch() == "switched"
        which = ("--backend", backend, "-p", str(process.pid), "-e")
        refused = tracer(*which, f"uretprobe:{path}:PyObject_Vectorcall {{ @ = count(); }}")
        reason = rf"greenlet, which process {process.pid} \(\w+\S*\) has loaded, switches its stacks"
        assert refused.status == 2 and re.search(reason, refused.err)
        assert "--unsafe-returns takes the risk" in refused.err
        waits = f"{path}:PyObject_IsTrue"
        program = f"uprobe:{waits} {{ @in = count(); }} uretprobe:{waits} {{ @out = count(); }}"
        with tracing(tmp_path, *which, program) as traced:
            assert switch() == "switched"
            done = traced.stop()
        counted = {name: int(value) for name, value in (line.split(": ") for line in done.text.split("\n") if line)}
        assert counted["@in"] == counted["@out"] >= 30
        process.stdin.close()
        assert process.wait(10) == 0
