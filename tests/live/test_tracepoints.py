"""Events of the kernel on both backends: what a program did, by its own count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.cli import tracer

pytestmark = pytest.mark.parametrize("backend", ["bcc", "ftrace"])

ACTS = """
import os
os.dup2(os.open("/dev/null", os.O_WRONLY), 77)
for n in range(100):
    os.write(77, bytes(n))
for n in range(7):
    try:
        os.open("/no/such file", os.O_RDONLY)
    except FileNotFoundError:
        pass
"""


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("acts") / "acts.py"
    path.write_text(ACTS)
    return f"{sys.executable} {path}"


def run(backend: str, command: str, text: str, *more: str) -> str:
    done = tracer("--backend", backend, *more, "-c", command, "-e", text)
    said = [line for line in done.err.splitlines() if not line.startswith("Attached ")]
    assert (done.status, said) == (0, []), done.err
    return done.text


def test_numbers_are_read_as_the_types_of_the_format_say(backend: str, acts: str) -> None:
    writes = "tracepoint:syscalls:sys_enter_write /args.fd == 77/ { @n = count(); @bytes = sum(args.count); }"
    assert run(backend, acts, writes) == "@bytes: 4950\n@n: 100\n"


def test_what_the_kernel_keeps_in_eight_bytes_is_cut_to_the_type_of_c(backend: str, acts: str) -> None:
    text = (
        "tracepoint:syscalls:sys_enter_openat /args.flags == 524288 && args.dfd < 0/"
        " { @[args.dfd, sizeof(args.dfd), sizeof(args.mode)] = count(); }"
    )
    found = run(backend, acts, text)
    assert found.startswith("@[-100, 4, 2]: ") and found.count("\n") == 1


def test_errors_are_negative(backend: str, acts: str) -> None:
    text = (
        "tracepoint:syscalls:sys_enter_openat { @open[tid] = args.flags; }"
        " tracepoint:syscalls:sys_exit_openat /args.ret == -2 && @open[tid] == 524288/ { @ = count(); }"
        " END { clear(@open); }"
    )
    assert run(backend, f"{acts}", text).startswith("@: ")


def test_strings_and_records_are_what_the_event_holds(backend: str) -> None:
    text = (
        'tracepoint:sched:sched_process_exec {'
        ' printf("%s %d %d\\n", args.filename, args.pid == pid, args.old_pid == pid);'
        ' print(args.filename == "/bin/true"); @[args.filename] = count(); @len = max(strlen(args.filename)); }'
        " tracepoint:sched:sched_process_exit { print((args.comm, sizeof(args.comm))); }"
    )
    assert run(backend, "/bin/true", text) == "/bin/true 1 1\ntrue\n(true, 16)\n@[/bin/true]: 1\n@len: 9\n"


def test_arrays_have_elements(backend: str, acts: str) -> None:
    text = (
        "tracepoint:raw_syscalls:sys_enter /args.id == 1 && args.args[0] == 77/"
        " { $i = 2; @[args.args[0]] = sum(args.args[2]); @same = sum(args.args[$i]); }"
    )
    assert run(backend, acts, text) == "@[77]: 4950\n@same: 4950\n"


def test_args_are_a_record_in_text_and_in_json(backend: str) -> None:
    text = "tracepoint:sched:sched_process_exec { $a = args; print(($a.pid == cpid, $a.filename)); }"
    assert run(backend, "/bin/true", text) == "(true, /bin/true)\n"
    shown = run(backend, "/bin/true", "tracepoint:sched:sched_process_exec { print(args); }")
    pid = shown.partition(".pid = ")[2].partition(",")[0]
    assert shown == f"{{ .filename = /bin/true, .pid = {pid}, .old_pid = {pid} }}\n"
    lines = run(backend, "/bin/true", "tracepoint:sched:sched_process_exec { print(args); }", "-f", "json").splitlines()
    data = json.loads(lines[1])["data"]
    assert data == {"filename": "/bin/true", "pid": data["pid"], "old_pid": data["pid"]}


def test_a_string_that_does_not_fit_is_cut_and_counted(backend: str, tmp_path: Path) -> None:
    program = tmp_path / ("long" * 20)
    program.symlink_to("/bin/true")
    text = "config = { max_strlen = 16 } tracepoint:sched:sched_process_exec { print(args.filename); }"
    done = tracer("--backend", backend, "-c", str(program), "-e", text)
    assert done.text == f"{str(program)[:15]}\n"
    assert "tracer: 1 string cut to 15 bytes; raise max_strlen, now 16\n" in done.err


def test_clauses_at_one_event_run_in_the_order_of_the_program(backend: str, acts: str) -> None:
    where = "tracepoint:syscalls:sys_enter_write"
    text = f"{where} /args.fd == 77/ {{ @a = 1; }} {where} /args.fd == 77/ {{ @b[@a] = count(); @a = 2; }}"
    assert run(backend, acts, text) == "@a: 2\n@b[1]: 100\n"


def test_a_wildcard_tells_its_events_apart(backend: str, acts: str) -> None:
    text = "tracepoint:syscalls:sys_e*_writ* { @[probe, probetype] = count(); }"
    found = run(backend, acts, text)
    assert found == (
        "@[tracepoint:syscalls:sys_enter_write, tracepoint]: 100\n"
        "@[tracepoint:syscalls:sys_exit_write, tracepoint]: 100\n"
    )


def test_events_and_functions_of_a_program_meet_in_one_map(backend: str, acts: str) -> None:
    text = (
        "uprobe:libc:write { @in[tid] = 1; } tracepoint:syscalls:sys_enter_write /@in[tid] && args.fd == 77/"
        " { @ = count(); } uretprobe:libc:write { delete(@in, tid); }"
    )
    assert run(backend, acts, text) == "@: 100\n"


def test_others_are_not_seen_with_a_process_and_are_without(backend: str, acts: str) -> None:
    text = "tracepoint:syscalls:sys_enter_write /args.fd == 77/ { @ = count(); }"
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        alone = subprocess.Popen(
            [sys.executable, "-c", f"import subprocess, time; time.sleep(1.5); subprocess.run({acts.split()!r})"]
        )
        done = tracer("--backend", backend, "-p", str(process.pid), "--duration", "4", "-e", text)
        alone.wait()
        process.kill()
    assert done.text in ("", "@: 0\n")


ABOUT_OTHERS = {
    "tracepoint:sched:sched_* { @ = count(); }": "and others of the clause name theirs otherwise, or none; write",
    "span:tracepoint:sched:sched_waking..tracepoint:sched:sched_switch { @ = count(); }": "and a span is of one",
}


@pytest.mark.parametrize("text", ABOUT_OTHERS)
def test_an_event_of_two_threads_that_cannot_be_asked_about_is_refused(backend: str, text: str) -> None:
    done = tracer("--backend", backend, "-c", "/bin/true", "-e", text)
    said = "cannot be traced for some processes alone: it is about the thread of"
    assert done.status == 2 and said in done.err and ABOUT_OTHERS[text] in done.err, done.err


def test_nothing_in_tracefs_changes_and_nothing_is_left(backend: str, acts: str) -> None:
    if backend == "ftrace":
        text = "tracepoint:syscalls:sys_enter_write { @ = count(); }"
        before = os.listdir("/sys/kernel/tracing/instances")
        run(backend, acts, text)
        assert os.listdir("/sys/kernel/tracing/instances") == before
    assert Path("/sys/kernel/tracing/events/syscalls/sys_enter_write/enable").read_text() == "0\n"


def test_an_event_that_did_not_happen_is_told(backend: str) -> None:
    done = tracer("--backend", backend, "-c", "/bin/true", "-e", "tracepoint:syscalls:sys_enter_acct { @ = count(); }")
    assert (done.status, done.err) == (0, "Attached 1 probe\ntracer: no probe was hit\n")


def test_a_thread_that_has_ended_has_its_number_at_its_last_switch(backend: str, tmp_path: Path) -> None:
    (tmp_path / "threads.py").write_text(
        "import threading\nfor _ in range(300):\n    threading.Thread(target=lambda: None).start()\n"
    )
    text = "tracepoint:sched:sched_switch { @[tid == args.prev_pid] = count(); }"
    later = f"sleep 1.5; exec {sys.executable} {tmp_path}/threads.py"
    with subprocess.Popen(["/bin/sh", "-c", later]) as process:
        done = tracer("--backend", backend, "--duration", "3", "-e", text)
        process.wait()
    assert done.text.startswith("@[true]: ") and done.text.count("\n") == 1
    assert int(done.text.split()[-1]) > 300


TESTS = ("== 0", "!= 0", "< 0", ">= 0", "== -5", "> 4294967295", "== 4294967296", "!= 5000000000")


@pytest.mark.parametrize("test", TESTS)
def test_a_test_of_a_field_holds_wherever_it_is_made(backend: str, test: str) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    text = f"tracepoint:task:task_newtask /args.oom_score_adj {test}/ {{ @ = count(); }}"
    done = tracer("--backend", backend, "-c", "/bin/sh -c '/bin/true; /bin/true; :'", "-e", text)
    assert done.text == "@: 2\n" * eval(f"{own} {test}")


def test_a_clause_that_did_not_happen_beside_one_that_did(backend: str) -> None:
    text = "tracepoint:sched:sched_process_exec, uprobe:libc:getaddrinfo { @[probetype] = count(); }"
    done = tracer("--backend", backend, "-c", "/bin/true", "-e", text)
    assert done.text == "@[tracepoint]: 1\n"
    assert "tracer: uprobe:libc:getaddrinfo was never hit: true did not call it, and has ended\n" in done.err


NOT_THERE = {
    "tracepoint:syscalls:sys_enter_openat { @ = str(args.filename); }": "an event holds pointers, and not what they",
    "tracepoint:syscalls:sys_enter_openat { @[uid] = count(); }": "uid is not available with ftrace",
}


@pytest.mark.parametrize("program", NOT_THERE)
def test_what_an_event_does_not_hold_is_read_through_bcc_alone(backend: str, program: str) -> None:
    done = tracer("--dry-run", "--backend", backend, "-e", program)
    assert (done.status == 0) == (backend == "bcc")
    assert backend == "bcc" or NOT_THERE[program] in done.err


def test_hits_inside_a_bpf_program_are_counted_as_left_out(backend: str) -> None:
    """A program that runs all the time, and interrupts that come meanwhile: the kernel runs no program at those."""
    busy = "import os, time\nend = time.time() + 3\nwhile time.time() < end:\n    os.getppid()"
    text = (
        "tracepoint:raw_syscalls:sys_enter { @h = hist(args.id); @[pid, tid, args.id] = count(); }"
        " tracepoint:irq_vectors:local_timer_entry { @timer = count(); } END { clear(@h); clear(@); }"
    )
    with subprocess.Popen([sys.executable, "-c", busy]) as process:
        done = tracer("--backend", backend, "--duration", "2", "-e", text)
        process.wait()
    assert done.text.startswith("@timer: ")
    said = "left out, of any process: an interrupt came while a BPF program ran on that CPU"
    assert (said in done.err) == (backend == "bcc")


def test_more_clauses_than_the_kernel_runs_programs_at_an_event(backend: str) -> None:
    text = " ".join(f"tracepoint:sched:sched_process_exec {{ @{chr(97 + n % 26)}{n} = count(); }}" for n in range(70))
    done = tracer("--backend", backend, "-c", "/bin/true", "-e", text)
    if backend == "bcc":
        said = "the kernel runs 64 BPF programs at an event, others' among them; --backend ftrace has no such limit"
        assert said in done.err
    else:
        assert done.text.count(": 1\n") == 70
