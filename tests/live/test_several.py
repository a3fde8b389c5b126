"""Several processes of `-p`: those, each with its own count, and nobody else; by number, by name, with descendants."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest

import tracer as library
from tests.harness.cli import Done, read_line, target, tell, tracer, tracing, until
from tests.live.answers import maps
from tests.live.breakpoints import texts_of
from tests.live.test_follow import HITS, N

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

Place = Callable[[str], Path]
Process = subprocess.Popen[bytes]

_numbers = count(1)


@pytest.fixture
def path(place: Place, tmp_path: Path) -> Path:
    """A program under a name of its own, which is longer than the kernel keeps of one."""
    path = tmp_path / f"{os.getpid()}-{next(_numbers)}-of-several"
    shutil.copy(place("family"), path)
    return path


@pytest.fixture
def three(path: Path) -> Iterator[list[Process]]:
    """Processes that pass 30, 40 and 77 times through `family:hit` (0, i) themselves, and then start others."""
    with ExitStack() as stack:
        yield [stack.enter_context(target(path, hits, "wait")) for hits in (30, 40, 77)]


def run(three: list[Process]) -> None:
    for each in (three[2], *three[:2]):
        tell(each)
    for each in three:
        assert read_line(each) == "done"


def whom(*processes: Process) -> str:
    return ",".join(str(each.pid) for each in processes)


def traced(three: list[Process], tmp_path: Path, backend: str, program: str, *options: str) -> Done:
    with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program, *options) as running:
        run(three)
        return running.wait()


@pytest.mark.parametrize(
    "program",
    [
        "usdt:{}:family:hit {{ @[pid, arg0] = count(); }}",
        "uprobe:{}:pass {{ @[pid, arg0] = count(); }}",
        "uretprobe:{0}:pass {{ @r[pid] = count(); }} uprobe:{0}:pass {{ @[pid, arg0] = count(); }}",
        'uprobe:{}:pass /comm != "x"/ {{ @[pid, arg0] = count(); @stacks[pid, ustack(1)] = count(); }}',
    ],
    ids=["usdt", "uprobe", "returns", "stacks"],
)
def test_each_counts_its_own_and_nobody_else(
    backend: str, path: Path, three: list[Process], tmp_path: Path, program: str
) -> None:
    done = traced(three, tmp_path, backend, program.format(path), "-p", whom(*three[:2]))
    first, second = (each.pid for each in three[:2])
    found = maps(done)
    assert found["@"] == {f"{first},0": 30, f"{second},0": 40}
    assert found.get("@r", {str(first): 30, str(second): 40}) == {str(first): 30, str(second): 40}
    if "@stacks" in found:
        assert sorted(found["@stacks"].values()) == [30, 40]
        assert {re.sub(r"\+\d+$", "", key.split(",", 1)[1].strip()) for key in found["@stacks"]} == {"pass"}
    assert (done.status, done.err) == (0, f"Attached {program.count('probe:') or 1} probe{'s' * ('@r' in program)}\n")


def test_a_kernel_that_lacks_something_gives_the_same(
    backend: str, path: Path, three: list[Process], tmp_path: Path
) -> None:
    """Without `uprobe_multi` there are perf events, for a wildcard one trace event; without `inherit_thread` samples of
    others come too, and are dropped.
    """
    lacking = {"bcc": "uprobe_multi", "ftrace": "inherit_thread"}[backend]
    program = f"uprobe:{path}:* {{ @all[func, pid] = count(); }} uprobe:{path}:pass {{ @ = count(); }}"
    done = traced(three, tmp_path, backend, program, "--no-feature", lacking, "-p", whom(*three[:2]))
    first, second = (each.pid for each in three[:2])
    found = maps(done)
    assert (done.status, found["@"]) == (0, 70)
    assert {key: count for key, count in found["@all"].items() if key.startswith("pass,")} == {
        f"pass,{first}": 30, f"pass,{second}": 40,
    }  # fmt: skip
    assert {int(key.split(",")[1]) for key in found["@all"]} == {first, second}


def test_too_many_for_probes_of_their_own_count_the_same(backend: str, path: Path, tmp_path: Path) -> None:
    """Others run into the probes too; a number that is used again belongs to nobody."""
    program = f"uprobe:{path}:* {{ @all[func, pid] = count(); }} uprobe:{path}:pass {{ @ = count(); }}"
    with ExitStack() as stack:
        several = [stack.enter_context(target(path, hits, "wait")) for hits in range(1, 131)]
        options = ("--backend", backend, "-f", "json", "-e", program, "-p", whom(*several[:-1]))
        with tracing(tmp_path, *options) as running:
            for each in several:
                tell(each)
            done = running.wait()
    found = maps(done)
    own = {f"pass,{each.pid}": hits for hits, each in enumerate(several[:-1], 1)}
    assert {key: count for key, count in found["@all"].items() if key.startswith("pass,")} == own
    assert found["@"] == sum(own.values())
    assert re.match(
        r"tracer: 129 processes at \d+ places are too many for probes of their own: other processes run into them too,"
        r" and are not counted\nAttached \d+ probes\n$", done.err,
    )  # fmt: skip


def test_what_has_no_probes_in_files_is_not_called_too_much_for_them(
    backend: str, three: list[Process], tmp_path: Path
) -> None:
    done = traced(three, tmp_path, backend, "software:page-faults:1 { @ = count(); }", "-p", whom(*three))
    assert (done.status, done.err) == (0, "Attached 1 probe\n") and maps(done)["@"] > 0


def test_what_is_merely_counted_is_the_sum(backend: str, path: Path, three: list[Process], tmp_path: Path) -> None:
    options = ("-p", str(three[0].pid), "-p", whom(three[1], three[0]))
    done = traced(three, tmp_path, backend, f"usdt:{path}:family:hit /arg1 >= 10/ {{ @ = count(); }}", *options)
    assert (done.status, maps(done), done.err) == (0, {"@": 20 + 30}, "Attached 1 probe\n")


def test_followed_are_the_descendants_of_all_of_them(
    backend: str, path: Path, three: list[Process], tmp_path: Path
) -> None:
    program = f"usdt:{path}:family:hit {{ @[arg0] = count(); }}"
    done = traced(three, tmp_path, backend, program, "--follow", "-p", whom(*three[:2]))
    wanted = {str(kind): 400 if kind == 8 else count // N * 70 for kind, count in HITS.items()}
    assert (done.status, maps(done)["@"], done.err) == (0, wanted, "Attached 1 probe\n")


def test_the_processes_of_a_name_are_found_and_said(
    backend: str, path: Path, three: list[Process], tmp_path: Path
) -> None:
    program = f"uprobe:{path}:pass /arg0 == 0/ {{ @[pid] = count(); }}"
    quiet = tracer("-q", "-e", "BEGIN { exit(); }", "-p", path.name[:15])
    assert (quiet.status, quiet.err) == (0, "")
    done = traced(three, tmp_path, backend, program, "-p", path.name)
    assert maps(done)["@"] == {str(each.pid): hits for each, hits in zip(three, (30, 40, 77), strict=True)}
    each = ", ".join(rf"{pid} {path.name} \(\w+, since \d\d:\d\d:\d\d\)" for pid in sorted(each.pid for each in three))
    assert re.fullmatch(rf"tracer: tracing 3 processes: {each}\nAttached 1 probe\n", done.err)


@pytest.mark.parametrize("follow", [False, True])
def test_children_are_those_that_run_already_and_with_follow_the_later_too(
    backend: str, path: Path, tmp_path: Path, follow: bool
) -> None:
    """The shell's two descendants run when the trace begins, the third is started later."""
    go, here = tmp_path / "go", tmp_path / "here"
    script = (
        f"for n in 30 40; do (until [ -e {go} ]; do sleep 0.02; done; exec {path} $n) & done; echo ready;"
        f" until [ -e {here} ]; do sleep 0.02; done; {path} 50; touch {go}; wait"
    )
    program = f"uprobe:{path}:pass /arg0 == 0/ {{ @[comm] = count(); }}"
    options = ("--backend", backend, "-f", "json", "-e", program, "--children", *(["--follow"] if follow else []))
    with target("sh", "-c", script) as shell:
        assert read_line(shell) == "ready"
        with tracing(tmp_path, *options, "-p", str(shell.pid)) as running:
            here.touch()
            for _ in range(3):
                assert read_line(shell) == "done"
            done = running.wait()
    assert (done.status, sum(maps(done)["@"].values())) == (0, 120 if follow else 70)
    assert re.match(rf"tracer: tracing \d processes: {shell.pid} sh \(\w+, since ", done.err)
    assert "not their descendants" not in done.err or follow  # one of the sleeps, which come and go


def test_the_trace_ends_with_the_last_and_an_earlier_end_is_no_error(
    backend: str, path: Path, three: list[Process], tmp_path: Path
) -> None:
    program = f"uprobe:{path}:pass /arg0 == 0/ {{ @[pid] = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-f", "json", "-e", program, "-p", whom(*three[:2])) as running:
        tell(three[0])
        assert read_line(three[0]) == "done"
        three[0].wait()
        assert running.process.poll() is None
        tell(three[1])
        assert read_line(three[1]) == "done"
        done = running.wait()
    wanted = {str(three[0].pid): 30, str(three[1].pid): 40}
    assert (done.status, maps(done)["@"], done.err) == (0, wanted, "Attached 1 probe\n")


@contextmanager
def gated(path: Path) -> Iterator[tuple[list[Process], str]]:
    """Three that run, and a program that counts a probe with a semaphore by process."""
    with ExitStack() as stack:
        several = [stack.enter_context(target(path, 5)) for _ in range(3)]
        for each in several:
            read_line(each)
        yield several, f"usdt:{path}:gated:tick {{ @[pid] = count(); }} interval:ms:50 {{ print(@); }}"


def test_semaphores_and_breakpoints_are_of_these_processes_alone(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("gated")
    with gated(path) as (several, program):
        options = ("--backend", backend, "-e", program, "-p", whom(*several[:2]))
        with tracing(tmp_path, *options) as running:
            until(lambda: all(f"@[{each.pid}]".encode() in running.out for each in several[:2]))
            probed = [any(text.altered() for text in texts_of(path, [each.pid])) for each in several]
            shown = [
                tracer("-l", "-v", "-p", str(each.pid), f"usdt:{path}:gated:tick").text.splitlines()[-1].split("; ")[-1]
                for each in several
            ]
            done = running.stop()
        assert probed == [True, True, False]
        assert shown == ["it is on in 1", "it is on in 1", "it is off"]
        assert f"@[{several[2].pid}]" not in done.text
        after = tracer("-l", "-v", "-p", whom(*several), f"usdt:{path}:gated:tick").text
        assert after.endswith("3 processes have loaded the file; it is off\n")


def test_semaphores_that_tracer_raises_itself_too(backend: str, place: Place, tmp_path: Path) -> None:
    path = place("gated")
    with gated(path) as (several, program):
        options = ("--backend", backend, "--no-feature", "ref_ctr", "--usdt-file-activation", "-e", program)
        with tracing(tmp_path, *options, "-p", whom(*several[:2])) as running:
            until(lambda: all(f"@[{each.pid}]".encode() in running.out for each in several[:2]))
            done = running.stop()
    raised = "tracer: semaphores raised in 2 of 2 processes; processes started later are not seen\n"
    assert (done.status, done.err) == (0, f"{raised}Attached 2 probes\n")
    assert f"@[{several[2].pid}]" not in done.text


def test_a_library_that_one_alone_maps_is_found_and_probed_there(backend: str, path: Path, tmp_path: Path) -> None:
    script = "import sys, zlib; print(flush=True); sys.stdin.readline(); [zlib.crc32(b'x') for _ in range(9)]; print()"
    program = "uprobe:libz:crc32 { @[pid] = count(); } uprobe:*:crc32 { @any = count(); }"
    with target(path, 30, "wait") as without, target(sys.executable, "-c", script) as having:
        read_line(having)
        options = ("--backend", backend, "-f", "json", "-e", program, "-p", whom(without, having))
        with tracing(tmp_path, *options) as running:
            tell(having)
            tell(without)
            assert read_line(without) == "done"
            done = running.wait()
    assert (done.status, maps(done)) == (0, {"@": {str(having.pid): 9}, "@any": 9})


def test_a_limit_of_the_rate_is_for_all_together(
    backend: str, path: Path, tmp_path: Path
) -> None:
    program = f"uprobe:{path}:pass {{ @[pid] = count(); }}"
    options = ("--backend", backend, "-e", program, "--max-rate", "50000", "-p")
    with target(path, 30_000_000, "wait") as first, target(path, 30_000_000, "wait") as second:
        with tracing(tmp_path, *options, whom(first, second)) as running:
            tell(first)
            tell(second)
            until(lambda: "error" in running.said or "detached: " in running.said)
            until(lambda: not any(text.altered() for text in texts_of(path, [first.pid, second.pid])))
        assert "are more than --max-rate 50000; incomplete from here on: @" in running.wait().said


def test_silence_is_explained_by_all_of_them(
    backend: str, place: Place, path: Path, three: list[Process], tmp_path: Path
) -> None:
    options = ("--backend", backend, "-p", whom(*three[:2]))
    loaded = tracer(*options, "--duration", "0.2", "-e", f"uprobe:{path}:leaf {{ @ = count(); }}")
    listed = f"process {three[0].pid} ({path.name}) and 1 more have"
    assert loaded.err == f"Attached 1 probe\ntracer: no probe was hit: {listed} loaded {path}, but did not call it\n"
    other = tracer(*options, "--duration", "0.2", "-e", f"usdt:{place('ticker')}:ticker:tick {{ @ = count(); }}")
    assert other.err == f"Attached 1 probe\ntracer: no probe was hit: {listed} not loaded {place('ticker')}\n"
    with tracing(tmp_path, *options, "-e", f"uprobe:{path}:leaf {{ @ = count(); }}") as running:
        for each in three[:2]:
            each.send_signal(signal.SIGKILL)
        done = running.wait()
    ended = "the 2 processes did not call it, and have ended"
    assert (done.status, done.err) == (0, f"Attached 1 probe\ntracer: no probe was hit: {ended}\n")


def test_the_library_takes_several_and_names(backend: str, path: Path, three: list[Process]) -> None:
    program = f"uprobe:{path}:pass /arg0 == 0/ {{ @[pid] = count(); }}"
    with (
        library.trace(program, pid=[three[0].pid, three[1].pid], backend=backend) as first,
        library.trace(program, pid=path.name, children=True, backend=backend) as named,
    ):
        run(three)
        assert first.wait(60) and named.wait(60)
    assert first.maps["@"] == {three[0].pid: 30, three[1].pid: 40}
    assert named.maps["@"] == {three[0].pid: 30, three[1].pid: 40, three[2].pid: 77}
    assert str(named.notices[0]).startswith("tracing 3 processes: ")
    with pytest.raises(library.TracerError, match="children needs pid"):
        library.trace(program, children=True)
