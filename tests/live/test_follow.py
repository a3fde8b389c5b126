"""`--follow`: the traced process and all that descend from it, and nobody else."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import Done, goes_on, read_line, target, tell, tracer, tracing, until
from tests.live.answers import maps

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

Place = Callable[[str], Path]

N = 30
HITS = {0: N, 1: N, 2: N, 3: 2 * N, 4: N, 5: N, 6: N, 7: N, 8: 200, 9: N}
"""By the kinds of descendant that tests/targets/family.c lists."""

ANSWER = "".join(f"@[{kind}]: {count}\n" for kind, count in sorted(HITS.items(), key=lambda item: (item[1], item[0])))


def by_kind(path: Path) -> str:
    return f"usdt:{path}:family:hit {{ @[arg0] = count(); }}"


@pytest.fixture(params=["c", "p"])
def option(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_hit_of_every_descendant_counts(backend: str, place: Place) -> None:
    path = place("family")
    done = tracer("--backend", backend, "--follow", "-e", by_kind(path), "-c", f"{path} {N}")
    assert (done.status, done.text, done.err) == (0, f"done\n{ANSWER}", "Attached 1 probe\n")


def beside_another(path: Path, folder: Path, *options: str) -> Done:
    """The trace of a running process, while another one does the same."""
    with (
        target(path, N, "wait") as process,
        target(path, 77, "wait") as other,
        tracing(folder, *options, "-p", str(process.pid)) as running,
    ):
        for each in (other, process):
            tell(each)
        for each in (other, process):
            assert read_line(each) == "done"
        return running.wait()


def test_those_of_a_running_process_too_and_none_of_others(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("family")
    done = beside_another(path, tmp_path, "--backend", backend, "--follow", "-e", by_kind(path))
    assert (done.status, done.text, done.err) == (0, ANSWER, "Attached 1 probe\n")


def test_children_that_run_already_are_told_by_their_numbers(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("ticker")
    script = f'for i in 1 2 3; do {path} 20 20 >/dev/null & echo $!; done; read line; {path} 0.3 10; wait'
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        children = [int(shell.stdout.readline()) for _ in range(3)]
        program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
        options = ("--backend", backend, "--follow", "-e", program, "-p", str(shell.pid))
        with tracing(tmp_path, *options) as running:
            shell.stdin.write("go\n")
            shell.stdin.flush()
            assert shell.stdout.readline() == "30\n"
            for each in children:
                os.kill(each, 9)
            done = running.wait()
    first, second, third = sorted(children)
    assert (done.status, done.text) == (0, "@: 30\n")
    assert done.err == (
        f"Attached 1 probe\ntracer: --follow traces what process {shell.pid} starts from now on, not its descendants"
        f" {first}, {second} and {third}, which run already: --children traces those too\n"
    )


def test_others_that_run_beside_the_command_do_not_count(backend: str, place: Place) -> None:
    path = place("family")
    with target(path, 3000) as other:
        done = tracer("--backend", backend, "--follow", "-e", by_kind(path), "-c", f"{path} {N}")
        read_line(other)
    assert (done.status, done.text, done.err) == (0, f"done\n{ANSWER}", "Attached 1 probe\n")


@pytest.mark.parametrize("action", ["@ = count();", "@[arg0] = count();"])
def test_no_child_is_missed_whose_parent_ends_at_once(backend: str, place: Place, action: str) -> None:
    path = place("orphans")
    program = f"usdt:{path}:orphans:hit {{ {action} }}"
    done = tracer("--backend", backend, "--follow", "-f", "json", "-e", program, "-c", f"{path} 200 3")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert maps(done)["@"] == (600 if "[" not in action else {str(child): 3 for child in range(200)})


@pytest.mark.parametrize("where", ["", "/arg0 == 3/"])
def test_counts_alone_are_those_of_all(backend: str, option: str, place: Place, tmp_path: Path, where: str) -> None:
    path = place("family")
    program = f"usdt:{path}:family:hit {where} {{ @ = count(); }}"
    common = ("--backend", backend, "--follow", "-e", program)
    if option == "c":
        done = tracer(*common, "-c", f"{path} {N}")
        assert done.text.startswith("done\n")
    else:
        with target(path, N, "wait") as process, tracing(tmp_path, *common, "-p", str(process.pid)) as running:
            tell(process)
            done = running.wait()
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    assert done.text.removeprefix("done\n") == f"@: {HITS[3] if where else sum(HITS.values())}\n"


def test_json_has_the_same_counts_by_process(backend: str, place: Place) -> None:
    path = place("family")
    program = f"usdt:{path}:family:hit {{ @[arg0, pid == cpid, pid == tid, comm] = count(); @pids[pid] = count(); }}"
    done = tracer("--backend", backend, "--follow", "-f", "json", "-e", program, "-c", f"{path} {N}")
    found = maps(done)
    assert found["@"] == {
        f"{kind},{'true' if kind == 0 else 'false'},{'false' if kind == 3 else 'true'},family": count
        for kind, count in HITS.items()
    }
    assert sorted(found["@pids"].values()) == sorted([1] * 200 + [N] * 8 + [2 * N])


def test_every_line_is_printed_once(backend: str, place: Place) -> None:
    path = place("family")
    program = f'usdt:{path}:family:hit {{ printf("%d %d\\n", arg0, arg1); }}'
    done = tracer("--backend", backend, "--follow", "-e", program, "-c", f"{path} {N}")
    rounds = {kind: range(200) if kind == 8 else [*range(N)] * (count // N) for kind, count in HITS.items()}
    hits = [f"{kind} {i}" for kind, numbers in rounds.items() for i in numbers]
    assert sorted(done.text.splitlines()) == sorted([*hits, "done"])


def test_names_in_processes_that_live_for_a_moment(backend: str, option: str, place: Place, tmp_path: Path) -> None:
    path = place("family")
    program = f'usdt:{path}:family:hit /arg0 == 8 && arg1 == 150/ {{ printf("%s", ustack(1)); }}'
    common = ("--backend", backend, "--follow", "-e", program)
    if option == "c":
        done = tracer(*common, "-c", f"{path} {N}")
    else:
        with target(path, N, "wait") as process, tracing(tmp_path, *common, "-p", str(process.pid)) as running:
            tell(process)
            done = running.wait()
    assert done.text.replace("done\n", "") == "\n        pass+0\n"


def test_a_process_that_forks_all_the_time_is_followed_without_a_hole(
    backend: str, place: Place, tmp_path: Path
) -> None:
    path = place("forks")
    program = f"usdt:{path}:forks:hit {{ @[arg0] = count(); }}"
    with target(path, 1_000_000, 2) as process:
        common = ("--backend", backend, "--follow", "-f", "json", "-p", str(process.pid))
        with tracing(tmp_path, *common, "-e", program) as running:
            goes_on(process.pid, times=30)  # it waits for each child
            process.kill()
            done = running.wait()
    found = {int(child): hits for child, hits in maps(done)["@"].items()}
    first, last = min(found), max(found)
    found.pop(first)  # it may have begun before
    assert last - first > 10
    assert found == dict.fromkeys(range(first + 1, last + 1), 2)


def test_programs_that_descendants_exec_are_traced(backend: str, place: Place) -> None:
    depot, ticker = place("depot"), place("ticker")
    program = f"usdt:{depot}:depot:plain {{ @depot = count(); }} usdt:{ticker}:ticker:tick {{ @ticker = count(); }}"
    script = f"sh -c '{depot} 5; ({depot} 4 & {ticker} 0.05 10 >/dev/null); exec {depot} 3'"
    done = tracer("--backend", backend, "--follow", "-e", program, "-c", script)
    assert (done.status, done.text) == (0, "@depot: 12\n@ticker: 5\n"), done.err


def test_a_set_group_id_command_is_followed(backend: str, place: Place) -> None:
    path = place("family")
    os.chown(path, 0, 1)
    path.chmod(0o2755)
    done = tracer("--backend", backend, "--follow", "-e", by_kind(path), "-c", f"{path} {N}")
    assert (done.status, done.text, done.err) == (0, f"done\n{ANSWER}", "Attached 1 probe\n")


def test_the_trace_ends_with_the_last_descendant_and_tells_how_the_command_ended(backend: str, place: Place) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    begin = time.monotonic()
    done = tracer("--backend", backend, "--follow", "-e", program, "-c", f"sh -c '{path} 1 10 & exit 3'")
    assert time.monotonic() - begin > 1
    assert (done.status, done.text) == (0, "100\n@: 100\n")
    assert done.err == "Attached 1 probe\ntracer: sh ended with status 3\n"


def test_ctrl_c_ends_it_while_descendants_live(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    command = f"sh -c '{path} 20 10 & echo $!'"
    with tracing(tmp_path, "--backend", backend, "--follow", "-e", program, "-c", command) as running:
        running.wait_for_output(b"\n")
        pid = int(running.out)
        goes_on(pid)
        done = running.stop()
        os.kill(pid, 9)  # it is there still: it is not ours
    assert re.fullmatch(rf"{pid}\n@: [1-9]\d*\n", done.text)


def test_children_from_before_are_not_traced(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("depot")
    script = f"(read line; {path} 5) & read line; {path} 3; wait"
    with target("/bin/bash", "-c", f"exec 3<&0; {script.replace('(read line;', '(read line <&3;')}") as process:
        before = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(before.read_text)
        program = f"usdt:{path}:depot:plain {{ @ = count(); }}"
        with tracing(tmp_path, "--backend", backend, "--follow", "-p", str(process.pid), "-e", program) as running:
            tell(process)
            tell(process)
            done = running.wait()
    assert (done.status, done.text) == (0, "@: 3\n"), done.err


def test_without_the_tracepoint_ftrace_follows(place: Place) -> None:
    path = place("forks")
    program = f"usdt:{path}:forks:hit {{ @[arg0] = count(); }}"
    words = ("--follow", "-e", program, "-c", f"{path} 2 5")
    env = {"TRACER_WITHOUT": "task_newtask"}
    done = tracer(*words, env=env)
    assert (done.status, done.text) == (0, "@[0]: 5\n@[1]: 5\n@[2]: 5\n")
    reason = "--follow is not available with bcc: the kernel has no tracepoint task:task_newtask"
    assert done.err == f"tracer: using ftrace, not bcc: {reason} (--backend ftrace can)\nAttached 1 probe\n"
    done = tracer("--backend", "bcc", *words, env=env)
    assert (done.status, done.out) == (1, b"")
    assert done.err == f"{program}\n{'^' * len(program)} error: {reason}; --backend ftrace can\n"


def test_it_needs_a_process(place: Place) -> None:
    done = tracer("--follow", "-e", "uprobe:libc:malloc { @ = count(); }")
    assert (done.status, done.out) == (2, b"")
    assert done.err == "tracer: error: --follow needs -p or -c; without them every process is traced already\n"


def test_the_exit_of_a_thread_does_not_end_it(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("threads")
    with target(path, 4, 500, "wait") as process:
        program = f"usdt:{path}:threads:hit {{ @ = count(); }}"
        with tracing(tmp_path, "--backend", backend, "--follow", "-p", str(process.pid), "-e", program) as running:
            tell(process)
            assert read_line(process) == "done"
            time.sleep(0.3)
            assert running.process.poll() is None
            process.kill()
            done = running.wait()
    assert (done.status, done.text) == (0, "@: 2000\n")


def test_probes_attached_one_by_one_follow_too(place: Place) -> None:
    path = place("family")
    words = ("--backend", "bcc", "--follow", "-e", by_kind(path), "-c", f"{path} {N}")
    done = tracer(*words, env={"TRACER_WITHOUT": "uprobe_multi"})
    assert (done.status, done.text, done.err) == (0, f"done\n{ANSWER}", "Attached 1 probe\n")


def test_semaphores_that_tracer_would_raise_are_refused(place: Place) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    with target(path, 20, 10) as process:
        words = ("--backend", "ftrace", "--usdt-file-activation", "--follow", "-p", str(process.pid), "-e", program)
        done = tracer(*words, env={"TRACER_WITHOUT": "ref_ctr"})
    assert (done.status, done.out) == (1, b"")
    assert done.err.endswith("leave out --follow: -p PID --usdt-file-activation traces the process alone\n")


def test_threads_are_marked_until_all_are() -> None:
    """A thread whose mark a write of its block took away is seen by the next round."""
    from tracer.backends.bcc.host import follow
    from tracer.kernel import bpf

    followed = follow.create_map(threads=True)
    try:
        numbers = [follow._THREADS + number for number in (7, 4095, 4096)]
        assert follow._mark(followed, numbers) and not follow._mark(followed, numbers)
        bpf.map_update(followed, struct.pack("=I", numbers[2] // 4096), bytes(4096))
        assert follow._mark(followed, numbers) and not follow._mark(followed, numbers)
        block = bpf.map_lookup(followed, struct.pack("=I", numbers[0] // 4096), 4096)
        assert block is not None and [place for place, mark in enumerate(block) if mark] == [7, 4095]
    finally:
        os.close(followed)
