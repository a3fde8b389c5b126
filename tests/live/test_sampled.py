"""What is sampled on CPUs, on both backends: beside what the kernel's own accounts say of the same programs."""

from __future__ import annotations

import re
import subprocess
import sys
from math import sqrt
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.parametrize("backend", ["bcc", "ftrace"])

PERIOD_S = 0.0017
"""Not one of the scheduler's own, or some parts of what it does are always hit and others never."""

SPIN = """
import os, sys, threading, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
shares = [float(word) for word in sys.argv[1:]]
threads = [threading.Thread(target=spin, args=(share,)) for share in shares]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sum(os.times()[:2]))
"""

TOUCH = """
import mmap, resource
size = 4096 * 3000
memory = mmap.mmap(-1, size)
memory.madvise(mmap.MADV_NOHUGEPAGE)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for at in range(0, size, 4096):
    memory[at] = 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

SLEEP = """
import time
def switches():
    text = open("/proc/self/status").read()
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)
before = switches()
for _ in range(300):
    time.sleep(0.0005)
print(switches() - before, switches())
"""


def run(backend: str, text: str, *command: str, more: tuple[str, ...] = ()) -> str:
    done = tracer("--backend", backend, *more, "-c", " ".join(command), "-e", text)
    assert (done.status, done.err) == (0, f"Attached {text.count('}')} probe{'s' * (text.count('}') > 1)}\n")
    return done.text


def script(folder: Path, text: str) -> tuple[str, str]:
    (folder / "program.py").write_text(text)
    return sys.executable, str(folder / "program.py")


def test_samples_are_the_cpu_time_of_all_threads(backend: str, tmp_path: Path) -> None:
    """A sample each 1.7 ms of CPU time of the command, whatever else runs: within three standard deviations."""
    found = run(backend, "profile:us:1700 { @ = count(); }", *script(tmp_path, SPIN), "0.4", "0.8")
    seconds, _, samples = found.partition("\n")
    expected = float(seconds) / PERIOD_S
    assert abs(int(samples.split()[-1]) - expected) < 3 * sqrt(expected)


def test_two_programs_have_samples_by_their_shares(backend: str, tmp_path: Path) -> None:
    python, program = script(tmp_path, SPIN)
    shell = tmp_path / "both.sh"
    shell.write_text(f"{python} {program} 0.3 & {python} {program} 0.9 & wait\n")
    text = "profile:us:1700 { @[pid] = count(); }"
    done = tracer("--backend", backend, "--follow", "-c", f"/bin/sh {shell}", "-e", text)
    counts = sorted(int(count) for count in re.findall(r"^@\[\d+\]: (\d+)$", done.text, re.MULTILINE))[-2:]
    times = sorted(float(line) for line in done.text.splitlines() if re.fullmatch(r"[\d.]+", line))
    for count, seconds in zip(counts, times, strict=True):
        assert abs(count - seconds / PERIOD_S) < 3 * sqrt(seconds / PERIOD_S)


def test_each_page_that_is_touched_is_a_fault(backend: str, tmp_path: Path) -> None:
    text = (
        "software:page-faults:1 { @ = count(); } software:minor-faults:1 { @parts = sum(1); }"
        " software:major-faults:1 { @parts = sum(1); }"
    )
    done = tracer("--backend", backend, "-c", " ".join(script(tmp_path, TOUCH)), "-e", text)
    found = done.text
    counted = int(found.partition("\n")[0])
    whole = int(re.findall(r"^@: (\d+)", found, re.MULTILINE)[0])
    assert f"@parts: {whole}\n" in found
    assert 3000 <= counted <= whole < counted + 4000


def test_a_period_makes_a_hit_of_so_many_events(backend: str, tmp_path: Path) -> None:
    """Events of others count too, on each CPU: so of a program's own a hit is one of 100, more or less."""
    text = "software:page-faults:1 { @ = count(); } software:faults { @hundredth = count(); }"
    found = run(backend, text, *script(tmp_path, TOUCH))
    numbers = dict(re.findall(r"^(@\w*): (\d+)", found, re.MULTILINE))
    expected = int(numbers["@"]) / 100
    assert abs(int(numbers["@hundredth"]) - expected) < 3 * sqrt(expected)


def test_switches_are_those_of_the_kernels_account(backend: str, tmp_path: Path) -> None:
    found = run(backend, "software:context-switches:1 { @ = count(); }", *script(tmp_path, SLEEP))
    some, every = map(int, found.partition("\n")[0].split())
    counted = int(re.findall(r"^@: (\d+)$", found, re.MULTILINE)[0])
    assert 300 <= some <= counted <= every + 50, "some come behind the last look, and some before the first"


def test_the_last_switch_of_a_thread_has_its_number_or_is_told(backend: str, tmp_path: Path) -> None:
    text = "import threading\nfor _ in range(50):\n    t = threading.Thread(target=int)\n    t.start()\n    t.join()\n"
    program = "software:cs:1 { @[tid] = count(); } END { print(len(@)); clear(@); }"
    done = tracer("--backend", backend, "-c", " ".join(script(tmp_path, text)), "-e", program)
    told = ", or it was of a thread that had ended but for its last switch, which perf does not name\n"
    assert int(done.text) >= (51 if backend == "bcc" else 1)
    assert done.err.endswith(told) == (backend == "ftrace")


def test_clauses_at_one_event_run_in_the_order_of_the_program(backend: str, tmp_path: Path) -> None:
    text = "software:faults:1 { @a = 1; } software:faults:1 { @b[@a] = count(); @a = 2; }"
    found = run(backend, text, *script(tmp_path, TOUCH))
    assert re.findall(r"^@b\[(\d)\]", found, re.MULTILINE) == ["1"]


def test_clauses_of_one_clock_run_in_the_order_of_the_program_from_the_first_on(backend: str) -> None:
    text = 'profile:hz:99 { printf("first %d\\n", cpu); } profile:hz:99 { printf("second %d\\n", cpu); @ = count(); }'
    done = tracer("--backend", backend, "--duration", "0.2s", "-e", text)
    of_cpus: dict[str, list[str]] = {}
    for which, cpu in re.findall(r"^(first|second) (\d+)$", done.text, re.MULTILINE):
        of_cpus.setdefault(cpu, []).append(which)
    assert of_cpus and all(whichs[:2] == ["first", "second"] for whichs in of_cpus.values())


def test_several_samplers_and_an_event_are_told_apart(backend: str, tmp_path: Path) -> None:
    text = (
        "profile:us:2500, software:page-faults:1, tracepoint:syscalls:sys_enter_madvise"
        " { @[probe, probetype] = count(); }"
    )
    done = tracer("--backend", backend, "-c", " ".join(script(tmp_path, TOUCH)), "-e", text)
    assert re.findall(r"^@\[(.*)\]: \d+$", done.text, re.MULTILINE) == [
        "tracepoint:syscalls:sys_enter_madvise, tracepoint", "profile:us:2500, profile",
        "software:page-faults:1, software",
    ]  # fmt: skip


def test_a_running_process_is_sampled_alone(backend: str) -> None:
    busy = "import time\nend = time.time() + 20\nwhile time.time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", busy]) as one, subprocess.Popen([sys.executable, "-c", busy]) as other:
        text = "profile:hz:99 { @[pid == $1] = count(); } interval:s:1 { exit(); }"
        done = tracer("--backend", backend, "-p", str(one.pid), "-e", text, str(one.pid))
        one.kill()
        other.kill()
    assert re.fullmatch(r"@\[true\]: \d+\n", done.text)


def test_what_never_happens_is_told(backend: str) -> None:
    done = tracer("--backend", backend, "-c", "/bin/true", "-e", "software:alignment-faults:1 { @ = count(); }")
    assert (done.status, done.text, done.err) == (0, "", "Attached 1 probe\ntracer: no probe was hit\n")


def test_what_this_machine_cannot_count_is_refused_by_name(backend: str) -> None:
    """Where there is a PMU it is sampled."""
    text = "hardware:ref-cycles:1000000 { @ = count(); }"
    done = tracer("--backend", backend, "-c", "/bin/true", "-e", text)
    if done.status == 0:
        assert done.err.startswith("Attached 1 probe\n")
        return
    assert done.status == 1
    said = "hardware:ref-cycles:1000000 cannot be sampled: this machine shows the kernel no counters of the processor"
    assert f"error: {said}" in done.err
    assert done.err.endswith("; profile:hz:99 samples by a clock of the kernel\n")


STACKS = r"""
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
volatile long sum;
__attribute__((noinline)) void spin(long turns) { for (long i = 0; i < turns; i++) sum += i; sum++; }
__attribute__((noinline)) void ask(void) { for (int i = 0; i < 50; i++) syscall(SYS_getppid); sum++; }
__attribute__((noinline)) void touch(long pages)
{
	char *memory = malloc(4096 * pages);

	for (long i = 0; i < pages; i++)
		memory[4096 * i] = 1;
	sum++;
	free(memory);
}
int main(void) { spin(100000000); ask(); touch(2000); sum++; return 0; }
"""


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("stacks")
    (folder / "stacks.c").write_text(STACKS)
    flags = ["-O1", "-fomit-frame-pointer", "-o", str(folder / "stacks")]
    subprocess.run(["gcc", *flags, str(folder / "stacks.c")], check=True)
    return str(folder / "stacks")


def callers(text: str) -> list[str]:
    return re.findall(r"^ +(\w+)\+\d+$", text, re.MULTILINE)


def test_the_users_stack_is_walked_where_the_program_is_in_the_kernel(backend: str, stacks: str) -> None:
    asked = run(backend, "tracepoint:syscalls:sys_enter_getppid { @[ustack(3)] = count(); }", stacks)
    assert callers(asked) == ["syscall", "ask", "main"] and asked.endswith("]: 50\n")


def test_the_users_stack_is_walked_where_a_clock_interrupts(backend: str, stacks: str) -> None:
    done = tracer("--backend", backend, "-c", stacks, "-e", "profile:hz:999 { @[ustack(perf, 2)] = count(); }")
    counts = re.findall(r"^\t[0-9a-f]+ spin\+\d+ .*\n\t[0-9a-f]+ main\+.*\n\]: (\d+)$", done.text, re.MULTILINE)
    assert sum(map(int, counts)) > 20


def test_the_users_stack_is_walked_at_a_page_fault(backend: str, stacks: str) -> None:
    done = tracer("--backend", backend, "-c", stacks, "-e", "software:faults:1 { @[ustack(2)] = count(); }")
    found = re.findall(r"^ +touch\+\d+\n +main\+\d+\n\]: (\d+)$", done.text, re.MULTILINE)
    assert 1990 <= sum(map(int, found)) <= 2010, "malloc touches some itself"


def test_a_thread_of_the_kernel_has_no_stack_and_is_a_hit(backend: str) -> None:
    text = 'tracepoint:sched:sched_switch /strcontains(args.prev_comm, "kworker")/ { @[ustack] = count(); }'
    done = tracer("--backend", backend, "--duration", "1.5", "-e", text)
    assert re.fullmatch(r"(@\[\n\]: \d+\n)+", done.text), "one for each process"
    assert "could not be walked" not in done.err


NAMES = """
import ctypes, os, threading
libc = ctypes.CDLL(None)
def act(name, times):
    if name:
        libc.prctl(15, name.encode(), 0, 0, 0)
    for _ in range(times):
        libc.syscall(110)
act("first", 10)
act("second", 20)
thread = threading.Thread(target=lambda: (act("", 1), act("inner", 4)))
thread.start()
thread.join()
if os.fork() == 0:
    act("", 3)
    os.execv("/bin/sh", ["sh", "-c", "exec /usr/bin/env -i true"])
os.wait()
"""


@pytest.mark.skipif(sys.maxsize < 1 << 32, reason="the number of getppid is that of x86-64")
def test_a_thread_has_the_name_that_it_has_at_the_hit(backend: str, tmp_path: Path) -> None:
    text = "tracepoint:raw_syscalls:sys_enter /args.id == 110 && comm != \"sh\"/ { @[comm] = count(); }"
    done = tracer("--backend", backend, "--follow", "-c", " ".join(script(tmp_path, NAMES)), "-e", text)
    assert done.text == "@[inner]: 4\n@[first]: 10\n@[second]: 24\n"


@pytest.mark.parametrize("test", ['comm == "second"', 'comm != "second" && comm != "sh"'])
def test_a_test_of_the_name_holds_wherever_it_is_made(backend: str, test: str, tmp_path: Path) -> None:
    text = f"tracepoint:syscalls:sys_enter_getppid /{test}/ {{ @[comm] = count(); }}"
    found = tracer("--backend", backend, "--follow", "-c", " ".join(script(tmp_path, NAMES)), "-e", text).text
    assert found == ("@[second]: 24\n" if "==" in test else "@[inner]: 4\n@[first]: 10\n")


def test_names_are_those_that_the_scheduler_has(backend: str) -> None:
    """Of all threads of the machine, the kernel's workers too."""
    text = "tracepoint:sched:sched_switch { @[comm == args.prev_comm] = count(); }"
    done = tracer("--backend", backend, "--duration", "2", "-e", text)
    assert re.fullmatch(r"@\[true\]: \d+\n", done.text)


def test_a_sample_knows_the_name_of_its_thread(backend: str, tmp_path: Path) -> None:
    found = run(backend, "software:page-faults:1 { @[comm] = count(); }", *script(tmp_path, TOUCH))
    name = Path(sys.executable).resolve().name
    assert f"@[{Path(sys.executable).name[:15]}]: " in found or f"@[{name[:15]}]: " in found
