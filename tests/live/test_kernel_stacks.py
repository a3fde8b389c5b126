"""Stacks of the kernel on both backends, beside what the kernel itself says of a thread that sleeps there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import tracer

READS = """
import os, time
zeros, room = os.open("/dev/zero", os.O_RDONLY), bytearray(1 << 20)
end = time.thread_time() + 0.5
while time.thread_time() < end:
    os.readv(zeros, [room])
"""

SLEEPS = """
import os, threading, time
read, write = os.pipe()
def wake():
    for _ in range(30):
        time.sleep(0.05)
        os.write(write, b".")
threading.Thread(target=wake).start()
def look():
    time.sleep(1.01)
    print(open(f"/proc/{os.getpid()}/stack").read())
threading.Thread(target=look).start()
for _ in range(30):
    os.read(read, 1)
"""


def functions(text: str) -> list[str]:
    return re.findall(r"^ +(\S+)\+\d+$", text, re.M)


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_a_stack_is_that_of_the_thread_that_sleeps_there(backend: str, tmp_path: Path) -> None:
    """/proc/PID/stack has the same calls but for those of the scheduler."""
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    sleeps = subprocess.Popen([sys.executable, tmp_path / "sleeps.py"], stdout=subprocess.PIPE, text=True)
    text = f"tracepoint:sched:sched_switch /pid == {sleeps.pid} && args.prev_state & 1/ {{ @[kstack] = count(); }}"
    done = tracer("--backend", backend, "-q", "-d", "1", "-e", text)
    there, _ = sleeps.communicate("")
    assert done.status == 0, done.err
    names = re.findall(r"\] (\S+)\+0x", there)
    assert len(names) > 3 and "do_syscall_64" in names
    stacks = [functions(stack) for stack in done.text.split("@[")[1:]]
    assert any(stack[-len(names) :] == names for stack in stacks), (names, stacks)
    assert all(stack[0].startswith("__schedule") for stack in stacks)


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_modes_and_numbers_of_frames(backend: str, tmp_path: Path) -> None:
    text = (
        "tracepoint:raw_syscalls:sys_enter /args.id == 39/"
        ' { printf("%s|%s|%s", kstack, kstack(raw, 2), kstack(perf, 1));'
        ' @[kstack(2), ksym(kaddr("vfs_read"))] = count(); }'
    )
    done = tracer("--backend", backend, "-q", "-c", f"{sys.executable} -c 'import os; os.getpid()'", "-e", text)
    assert done.status == 0, done.err
    whole, raw, perf = done.text.partition("@[")[0].strip("\n").split("|")
    names = functions(whole)
    assert names[-1] == "entry_SYSCALL_64_after_hwframe" and "do_syscall_64" in names
    with open("/proc/kallsyms") as file:
        symbols = {name: int(address, 16) for address, _, name in (line.split()[:3] for line in file)}
    first, second = (int(line, 16) for line in raw.split())
    assert 0 <= first - symbols[names[0]] < 4096 and 0 <= second - symbols[names[1]] < 4096
    assert perf.split() == [f"{first:x}", f"{names[0]}+{first - symbols[names[0]]}"]
    assert f"        {names[1]}+" in done.text.partition("@[")[2] and ", vfs_read]: 1" in done.text


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_samples_have_the_kernel_on_top_of_the_program(backend: str, tmp_path: Path) -> None:
    (tmp_path / "reads.py").write_text(READS)
    text = "profile:hz:199 { @[kstack, ustack] = count(); }"
    more = ("--stacks", "folded", "-c", f"{sys.executable} {tmp_path}/reads.py")
    done = tracer("--backend", backend, "-q", *more, "-e", text)
    assert done.status == 0, done.err
    shares = {True: 0, False: 0}
    for line in done.text.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        marked = [frame.endswith("_[k]") for frame in frames]
        assert marked == sorted(marked), stack  # the program below, the kernel above
        shares["do_syscall_64_[k]" in frames] += int(count)
    assert shares[True] > 3 * shares[False] and sum(shares.values()) > 50


def test_stacks_of_other_processes_are_not_walked(tmp_path: Path) -> None:
    """ftrace samples the whole machine; to walk what others have on their stacks costs more than all the rest."""
    (tmp_path / "reads.py").write_text(READS)
    text = "profile:hz:499 { @[kstack, ustack] = count(); }"
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        more = ("-v", "-f", "json", "-c", f"{sys.executable} {tmp_path}/reads.py", "-e", text)
        done = tracer("--backend", "ftrace", *more)
    finally:
        other.kill()
        other.wait()
    walked = re.search(r"^tracer: stacks: (.*)", done.err, re.M)
    assert done.status == 0 and walked, done.err
    (counts,) = (json.loads(line)["data"]["@"] for line in done.text.splitlines() if '"map"' in line)
    # At a sample of its end a process has no stack to walk any more.
    assert 0 <= sum(counts.values()) - sum(map(int, re.findall(r"\d+", walked[1]))) <= 3 and sum(counts.values()) > 100


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_what_the_kernel_hides_is_said(backend: str, tmp_path: Path) -> None:
    with open("/proc/kallsyms") as file:
        (tmp_path / "hidden").write_text("".join(re.sub(r"^\w+", "0" * 16, line) for line in file))
    script = f'mount --bind {tmp_path}/hidden /proc/kallsyms; exec "$@"'
    text = "tracepoint:raw_syscalls:sys_enter /args.id == 39/ { @[kstack(1)] = count(); }"
    words = ("--backend", backend, "-c", f"{sys.executable} -c 'import os; os.getpid()'", "-e", text)
    done = tracer(*words, prefix=("unshare", "--mount", "sh", "-c", script, "sh"))
    assert done.status == 0 and re.search(r"@\[\n +0xffffffff[0-9a-f]{8}\n\]: ", done.text), done.err
    assert "addresses of the kernel have no names, for it hides them: it takes root, and kernel.kptr" in done.err


@pytest.mark.parametrize("backend", ["bcc", "ftrace"])
def test_where_a_program_is_hit_there_is_none_and_that_is_said(backend: str) -> None:
    done = tracer("--backend", backend, "-f", "json", "-c", "id", "-e", "uprobe:libc:fclose { @[kstack] = count(); }")
    maps = [json.loads(line) for line in done.text.splitlines() if '"map"' in line]
    assert [list(entry["data"]["@"]) for entry in maps] == [["\n"]]
    assert "kstack is empty in" in done.err and "the program is stopped outside of the kernel" in done.err


def test_ftrace_refuses_what_the_samples_of_system_calls_have_not() -> None:
    text = "tracepoint:syscalls:sys_enter_read { @[kstack] = count(); }"
    done = tracer("--backend", "ftrace", "-c", "true", "-e", text)
    assert done.status == 1 and "perf's samples of system calls have the program's stack alone" in done.err
    assert "raw_syscalls:sys_enter and sys_exit have the kernel's too" in done.err
