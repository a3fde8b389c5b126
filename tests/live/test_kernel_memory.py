"""The kernel's own structures at a hit, as `curtask` leads to them, beside /proc. Through BCC: an event holds none."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.harness.cli import tracer

CALLS = (
    "import os; print(os.getpid(), os.getppid(), open('/proc/self/stat').read().split()[21], flush=True); os.getppid()"
)


def test_the_thread_that_hits_is_the_one_that_proc_shows() -> None:
    text = (
        "tracepoint:raw_syscalls:sys_enter /args.id == 110/ { @n++; if (@n == 2) {"
        ' printf("%d %d %s %s %d\\n", curtask->tgid, curtask->real_parent->tgid, curtask->comm, comm,'
        " curtask->start_boottime / 10000000);"
        " @sizes = (sizeof(struct task_struct), offsetof(struct task_struct, comm)); } }"
    )
    done = tracer("--backend", "bcc", "-q", "-c", f'{sys.executable} -c "{CALLS}"', "-e", text)
    assert done.status == 0, done.err
    own, seen = (line.split() for line in done.text.splitlines()[:2])
    assert seen[:2] == own[:2] and seen[2] == seen[3]
    assert abs(int(seen[4]) - int(own[2])) <= 1


def test_at_a_function_too_and_through_several_pointers() -> None:
    text = (
        "uprobe:libc:fclose { @[curtask->group_leader->pid == pid, curtask->mm->owner->tgid == pid,"
        " (uint64)curtask->mm->arg_end - (uint64)curtask->mm->arg_start] = count(); }"
    )
    done = tracer("--backend", "bcc", "-q", "-c", "id -u", "-e", text)
    assert done.status == 0 and re.search(r"^@\[true, true, 6\]: \d+$", done.text, re.M), (done.text, done.err)


def test_in_samples_too() -> None:
    text = "software:cpu-clock:1000000 { $task = curtask; @[$task->tgid == pid, $task->mm->map_count > 3] = count(); }"
    command = 'sh -c "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"'
    done = tracer("--backend", "bcc", "-q", "-c", command, "-e", text)
    assert done.status == 0 and re.search(r"^@\[true, true\]: \d+$", done.text, re.M), (done.text, done.err)


def test_a_thread_of_the_kernel_has_no_memory_and_that_is_counted() -> None:
    # PF_KTHREAD, include/linux/sched.h: one of these runs on a busy machine too.
    text = "tracepoint:sched:sched_switch /curtask->flags & 0x200000/ { @never = curtask->mm->total_vm; }"
    with subprocess.Popen(["sleep", "1"]):
        done = tracer("--backend", "bcc", "-d", "700ms", "-e", text)
    assert done.text == "" and "hits left out: an argument or string could not be read there" in done.err, done.err


def test_the_kernels_memory_is_read_where_the_program_asks_for_it_alone() -> None:
    """The traced program could name any address: without kptr() or curtask it gets nothing of the kernel's read."""
    for address, read in (('kptr((uint64 *)kaddr("_text"))', True), ('(uint64 *)kaddr("_text")', False)):
        text = f"uprobe:libc:fclose {{ @ = *{address} != 0; }}"
        done = tracer("--backend", "bcc", "-c", "id", "-e", text)
        assert done.status == 0 and ("@: true\n" in done.text) == read, (done.text, done.err)
        assert read or "hits left out: an argument or string could not be read there" in done.err


def test_where_it_cannot_be_had_it_is_refused_by_name() -> None:
    refused = {
        ("ftrace", "tracepoint:sched:sched_switch { @ = curtask; }"): "an event holds no memory of the kernel;",
        ("bcc", "BEGIN { print(curtask->pid); }"): "curtask is not known in BEGIN, which runs in tracer itself",
        ("bcc", "uprobe:libc:fclose { @ = curtask->pidd; }"): "struct task_struct has no member 'pidd'; did you mean",
        ("bcc", "uprobe:libc:fclose { @ = curtask->x_y_z; }"): " and 200 more",
    }
    for (backend, text), said in refused.items():
        done = tracer("--backend", backend, "-c", "true", "-e", text)
        assert done.status and (said in done.err or re.search(r" and \d+ more", done.err)), done.err


def test_sizes_and_places_are_constants_everywhere() -> None:
    text = "BEGIN { print((sizeof(struct task_struct), offsetof(struct task_struct, pid), sizeof(struct list_head))); }"
    ways = [tracer("--backend", backend, "-q", "-e", text).text.split()[-1] for backend in ("bcc", "ftrace")]
    assert ways[0] == ways[1] == "16)"
