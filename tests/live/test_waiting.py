"""Where threads wait, and events about two threads, on both backends: beside what the threads themselves did."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.parametrize("backend", ["bcc", "ftrace"])

SLEEPS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static void sleep_ms(int ms) { struct timespec time = {0, ms * 1000000L}; nanosleep(&time, 0); }

static void *little(void *unused)
{
	for (int i = 0; i < 20; i++)
		sleep_ms(5);
	return 0;
}

__attribute__((noinline)) void much(void)
{
	for (int i = 0; i < 20; i++)
		sleep_ms(15);
	__asm__ volatile("");
}

int main(void)
{
	pthread_t thread;
	struct rusage usage;
	cpu_set_t first;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof(first), &first);
	pthread_create(&thread, 0, little, 0);
	much();
	pthread_join(thread, 0);
	getrusage(RUSAGE_SELF, &usage);
	printf("%ld\\n", usage.ru_nvcsw + usage.ru_nivcsw);
	return 0;
}
"""


# It stays on one CPU: on this machine perf, whoever asks it, came to have no sample any more of what the idle thread of
# the other one does (Linux 6.18), and its switches to other threads are such.


@pytest.fixture(scope="module")
def sleeps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("waiting") / "sleeps"
    command = ["cc", "-O1", "-g", "-pthread", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=SLEEPS, check=True, text=True)
    return path


def test_time_off_the_cpu_is_that_of_the_sleeps(backend: str, sleeps: Path) -> None:
    asked = ("stacks", "--off-cpu", "--kernel", "--stacks", "folded")
    done = tracer(*asked, "--backend", backend, "-q", "-c", str(sleeps))
    assert done.status == 0, done.err
    waited = {"much": 0, "little": 0}
    for stack, nanoseconds in re.findall(r"^(.*) (\d+)$", done.text, re.M):
        for name in waited:
            if f";{name};" in stack and "do_nanosleep_[k]" in stack:
                assert stack.index(";" + name) < stack.index("_[k]")  # the kernel is on top
                waited[name] += int(nanoseconds)
    # Each sleep is as long as was asked for, at least; a switch that another of the kernel hides takes one with it.
    assert 255 < waited["much"] / 1e6 < 600 and 85 < waited["little"] / 1e6 < 300, waited


def test_what_has_not_come_back_at_the_end_counts_too(backend: str) -> None:
    done = tracer("stacks", "--off-cpu", "--by", "comm", "--stacks", "folded", "--backend", backend, "-d", "700ms",
                  "-q", "-c", "sleep 5")
    stacks = re.findall(r"^sleep;.*nanosleep.* (\d+)$", done.text, re.M)
    assert done.status == 0 and len(stacks) == 1 and 0.4 < int(stacks[0]) / 1e9 < 1.5, done.text


def test_both_threads_of_a_switch_are_seen(backend: str, sleeps: Path) -> None:
    text = (
        "tracepoint:sched:sched_switch { if (traced(args.prev_pid)) { @out++; } if (traced(args.next_pid)) { @in++; }"
        ' @named[(traced(args.prev_pid) ? args.prev_comm : args.next_comm) == "sleeps"] = count(); }'
    )
    done = tracer("--backend", backend, "-q", "-c", str(sleeps), "-e", text)
    assert done.status == 0, done.err
    switches = int(re.findall(r"^(\d+)$", done.text, re.M)[0])
    out, back = (int(re.findall(rf"^@{name}: (\d+)$", done.text, re.M)[0]) for name in ("out", "in"))
    # The two ends of threads are no switches of theirs by the kernel's account, and the way to the exec is not traced.
    assert abs(out - switches) <= 4 and 0.8 * out < back <= out + 1, (switches, out, back)


def test_a_process_that_runs_is_traced_with_its_new_threads(backend: str, sleeps: Path) -> None:
    later = f"import os, time; time.sleep(1.2); os.execv({str(sleeps)!r}, ['sleeps'])"
    target = subprocess.Popen([sys.executable, "-c", later], stdout=subprocess.PIPE, text=True)
    text = "tracepoint:sched:sched_switch /traced(args.prev_pid)/ { @[args.prev_pid != pid, args.prev_pid] = count(); }"
    text += ' tracepoint:sched:sched_waking /args.comm == "sleeps"/ { @woken[traced(args.pid)] = count(); }'
    done = tracer("--backend", backend, "-q", "-p", str(target.pid), "-e", text)
    target.communicate()
    assert done.status == 0, done.err
    threads = re.findall(r"^@\[(\w+), (\d+)\]: (\d+)$", done.text, re.M)
    assert len(threads) == 2 and all(int(count) >= 19 for _, _, count in threads), done.text
    assert re.fullmatch(r"true\]: (3\d|4\d)", done.text.partition("@woken[")[2].strip()), done.text


def test_who_ends_a_wait(backend: str) -> None:
    talk = "import os, time; r, w = os.pipe(); pid = os.fork()\nif pid == 0: os.read(r, 1); os._exit(0)\n"
    talk += "time.sleep(0.3); os.write(w, b'.'); os.wait()"
    done = tracer("stacks", "--wakeup", "--follow", "--stacks", "folded", "--backend", backend, "-q", "-c",
                  f'{sys.executable} -c "{talk}"')
    assert done.status == 0, done.err
    waits = [int(time) for stack, time in re.findall(r"^(.*) (\d+)$", done.text, re.M) if "write" in stack]
    assert any(0.25 < wait / 1e9 < 1 for wait in waits), done.text


def test_each_wake_has_room_for_its_key(backend: str) -> None:
    """The kernel has no memory for a new key at once where a timer wakes a thread."""
    sleep = "import threading, time; s = lambda: [time.sleep(0.005) for _ in range(20)]\n"
    sleep += "for t in [threading.Thread(target=s) for _ in range(3)]: t.start()"
    done = tracer("stacks", "--wakeup", "--by", "args.pid, nsecs", "--backend", backend, "-c",
                  f'{sys.executable} -c "{sleep}"')
    assert done.status == 0 and "dropped" not in done.err, done.err
    assert len(re.findall(r"^@\[\d+, \d+", done.text, re.M)) >= 55, done.text
