"""The overhead guard: what is hit too often is said, with a true figure, and --max-rate ends it and nothing else."""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE_S, TRACER, Done, read_line, target, tracer, tracing, until, without_slow
from tests.live.answers import maps, records
from tests.live.test_semaphores import semaphore

pytestmark = pytest.mark.live

PROBES = {"nop": "usdt:{}:hot:spin", "stepped": "uprobe:{}:spin", "return": "uretprobe:{}:spin"}

# A call of `spin` takes some nanoseconds, with a probe on it some hundred.
FAST_NS, SLOW_NS = 40.0, 150.0

WARNING = re.compile(
    r"(?P<line>[^\n]*)\n\^+ warning: (?P<rate>\d+) hits a second at (?P<cost>[\d.]+) (?P<unit>ns|us) each take"
    r" (?P<share>\d+)% of a CPU from the traced programs; (?P<remedy>[^\n]*)\n"
)


@contextmanager
def hot(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with target(path, "120") as process:
        read_line(process)
        yield process


def cpu_ns(process: subprocess.Popen[bytes]) -> int:
    """CPU time of its only thread so far."""
    return int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0])


@pytest.mark.clock
@pytest.mark.parametrize(
    ("kind", "body"),
    [*((kind, "@ = count();") for kind in PROBES), ("nop", "@[comm, arg0 % 3] = count();")],
    ids=[*PROBES, "sampled on ftrace"],
)
def test_the_warning_states_what_a_hit_really_costs(
    kind: str, body: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    line = f"{PROBES[kind].format(path)} {{ {body} }}"
    tries: list[list[tuple[float, float]]] = []
    while len(tries) < 3:  # beside other work a moment's figure need not be that of a second
        tries.append(said_and_real(backend, line, path, tmp_path / str(len(tries))))
        if all(0.5 < said / real < 2.0 for said, real in tries[-1]):
            return
    pytest.fail(f"nanoseconds and shares, said and real: {tries}")


def said_and_real(backend: str, line: str, path: Path, home: Path) -> list[tuple[float, float]]:
    """The cost of a hit and the share of a CPU that a trace of `line` warns of, each with what it really was."""
    home.mkdir()
    with hot(path) as process:
        # Beside much other work it would have less than the tenth of a CPU that is worth a warning.
        os.setpriority(os.PRIO_PROCESS, process.pid, -10)
        with tracing(home, "--backend", backend, "-e", line, "-p", str(process.pid)) as running:
            start, spent = time.monotonic_ns(), cpu_ns(process)
            until(lambda: WARNING.search(running.said), what=lambda: running.said)
            taken, spent = time.monotonic_ns() - start, cpu_ns(process) - spent
            done = running.stop()
        process.kill()
        assert process.stdout is not None
        # By the target's own clock and count: tracer's count over its time is short while samples are still to be read.
        trapped = [call for call in map(float, process.stdout.read().decode().split()) if call > SLOW_NS]
    assert done.err == "Attached 1 probe\n"
    found = WARNING.fullmatch(done.overhead[0])
    assert found is not None
    assert found["line"] == line
    assert found["remedy"] == "a predicate does not help, it comes after the trap; --max-rate N detaches it"
    cost = float(found["cost"]) * (1000 if found["unit"] == "us" else 1)
    rate, share = int(found["rate"]), int(found["share"]) / 100
    assert share == pytest.approx(rate * cost / 1e9, rel=0.02, abs=0.011)
    # The whole CPU time of the target is that of its hits: a call without takes a hundredth.
    return [(cost, statistics.median(trapped)), (share, spent / taken)]


@pytest.mark.clock
def test_a_slow_probe_brings_no_warning(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("ticker")
    done = tracer("--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }}", "-c", f"{path} 2.5 2")
    assert (done.status, done.text, done.said) == (0, "1250\n@: 1250\n", "Attached 1 probe\n")


def test_hits_of_others_are_no_overhead_of_what_is_followed(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    options = ("--backend", backend, "--follow", "--max-rate", "5000")
    with hot(path), hot(path) as followed, ExitStack() as stack:
        followed.send_signal(signal.SIGSTOP)
        traces = []  # beside each other: the hot one takes a whole processor
        for whom, predicate in ((("-p", str(followed.pid)), ""), (("-p", str(followed.pid)), "/arg0 >= 0/"),
                                (("-c", "sleep 20"), "/arg0 >= 0/")):  # fmt: skip
            program = f"uprobe:{path}:spin {predicate} {{ @ = count(); }} interval:ms:1500 {{ exit(); }}"
            traces.append(stack.enter_context(tracing(tmp_path, *options, "-e", program, *whom)))
        every = [trace.wait() for trace in traces]
        followed.send_signal(signal.SIGCONT)
    for done in every:
        assert (done.status, done.text, done.overhead) == (0, "", [])
        assert "detached" not in done.err


@pytest.mark.clock
def test_the_warning_is_said_once_and_not_with_q_or_no_warnings(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    program = f"usdt:{path}:hot:spin {{ @ = count(); }} interval:ms:2500 {{ exit(); }}"
    with hot(path) as process, ExitStack() as stack:  # three beside each other, of one that takes a whole processor
        args = ("--backend", backend, "-e", program, "-p", str(process.pid))
        traces = [
            stack.enter_context(tracing(tmp_path, *words, *args, ready=None))
            for words in ((), ("-q",), ("--no-warnings",))
        ]
        said, quiet, without = (trace.wait() for trace in traces)
    assert len(said.overhead) == 1
    assert (without_slow(quiet.said), without_slow(without.said)) == ("", "Attached 2 probes\n")


def test_of_a_wildcard_the_remedy_is_to_find_out_which(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    remedies = []
    with hot(path) as process, ExitStack() as stack:
        traces = [
            stack.enter_context(
                tracing(
                    tmp_path, "--backend", backend, "-e", f"{point} {{ @ = count(); }}", "-p", str(process.pid)
                )
            )
            for point in (f"uprobe:{path}:spin*", f"usdt:{path}:hot:*")
        ]
        for running in traces:
            until(lambda: WARNING.search(running.said), what=lambda: running.said)  # noqa: B023 - in its round
            done = running.stop()
            assert done.status == 0
            matched = WARNING.fullmatch(done.overhead[0])
            assert matched is not None
            remedies.append(matched["remedy"])
    limit = "--max-rate N"
    assert remedies == [
        "a predicate does not help, it comes after the trap; name fewer functions (@[func] = count() shows which are"
        f" hit), or let {limit} detach it",
        f"a predicate does not help, it comes after the trap; {limit} detaches it",
    ]


def cut(done: Done, point: str, limit: int) -> re.Match[str] | None:
    return re.search(
        rf"(?m)^tracer: @a is incomplete: {re.escape(point)} was detached after [\d.]+ s"
        rf" \((\d+) hits in ([\d.]+) s, --max-rate {limit}\)$",
        done.said,
    )


@pytest.mark.parametrize("kind", PROBES)
def test_max_rate_ends_the_one_that_exceeds_it_and_no_other(
    kind: str, backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("hot")
    point = PROBES[kind].format(path)
    line = f"{point} {{ @a = count(); }}"
    program = f"{line}\nuprobe:{path}:spin_mark {{ @b = count(); }}"
    done = tracer("--backend", backend, "--max-rate", "10000", "-f", "json", "-e", program, "-c", f"{path} 2")
    speeds = [float(line) for line in done.text.splitlines() if not line.startswith("{")]
    # It was slow, and is as fast as ever once nothing traps it.
    assert max(speeds) > SLOW_NS
    assert min(speeds[-5:]) < FAST_NS
    found = maps(done)
    assert found["@b"] == len(speeds)
    assert found["@a"] > 10_000
    (record,) = records(done, "detached")
    data = record["data"]
    assert list(data) == ["probe", "hits", "seconds", "after", "incomplete"]
    assert (data["probe"], data["incomplete"]) == (point, ["@a"])
    assert 10_000 < data["hits"] <= found["@a"] + 1  # the call under way may not have returned
    matched = cut(done, point, 10_000)
    assert matched is not None and int(matched[1]) == data["hits"]
    assert abs(float(matched[2]) - data["seconds"]) < 0.01
    assert done.status == 0
    assert done.said == (
        "Attached 2 probes\n"
        f"{line}\n"
        f"{'^' * len(point)} warning: detached: {data['hits']} hits in {matched[2]} s are more than"
        f" --max-rate 10000; incomplete from here on: @a\n"
        f"{matched[0]}\n"
    )


def test_one_of_two_that_share_a_place_ends_alone(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("hot")
    program = (
        f"uprobe:{path}:spin* {{ @a[func] = count(); @n = count(); }} "
        f"uprobe:{path}:spin_mark {{ @b = count(); @c[pid] = sum(1); }}"
    )
    done = tracer("--backend", backend, "--max-rate", "10000", "-f", "json", "-e", program, "-c", f"{path} 2")
    lines = sum(not line.startswith("{") for line in done.text.splitlines())
    found = maps(done)
    assert (found["@b"], sum(found["@c"].values())) == (lines, lines)
    assert found["@a"]["spin"] > 10_000
    assert found["@a"].get("spin_mark", 0) < lines
    assert found["@n"] == sum(found["@a"].values())
    assert [record["data"]["incomplete"] for record in records(done, "detached")] == [["@a", "@n"]]


def test_one_of_two_attach_points_of_a_clause_ends_alone(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("hot")
    program = f"uprobe:{path}:spin, uprobe:{path}:spin_mark {{ @[func] = count(); }}"
    done = tracer("--backend", backend, "--max-rate", "10000", "-f", "json", "-e", program, "-c", f"{path} 2")
    lines = sum(not line.startswith("{") for line in done.text.splitlines())
    assert maps(done)["@"]["spin_mark"] == lines
    assert [record["data"]["probe"] for record in records(done, "detached")] == [f"uprobe:{path}:spin"]


def test_hits_that_a_predicate_sends_on_count_too(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("hot")
    program = f"usdt:{path}:hot:spin /arg0 < 0/ {{ @a = count(); }}"
    with hot(path) as process:  # the trace ends with its only attach point
        done = tracer("--backend", backend, "--max-rate", "10000", "-e", program, "-p", str(process.pid))
    assert cut(done, f"usdt:{path}:hot:spin", 10_000) is not None


def test_q_leaves_out_the_warning_but_not_what_is_incomplete(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("hot")
    point = f"usdt:{path}:hot:spin"
    program = f"{point} {{ @a = count(); }}"
    with hot(path) as process:
        done = tracer("-q", "--backend", backend, "--max-rate", "10000", "-e", program, "-p", str(process.pid))
    matched = cut(done, point, 10_000)
    assert matched is not None
    assert (done.status, done.said) == (0, f"{matched[0]}\n")


@pytest.mark.clock
def test_what_stays_below_the_limit_is_left_alone(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick {{ @ = count(); }}"
    done = tracer("--backend", backend, "--max-rate", "1000", "-e", program, "-c", f"{path} 2.5 2")
    assert (done.status, done.text, done.said) == (0, "1250\n@: 1250\n", "Attached 1 probe\n")


def test_another_tracer_of_the_same_file_is_not_taken_for_this_one(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    hot_one = f"uprobe:{path}:spin {{ @a = count(); }}"
    calm_one = f"uprobe:{path}:spin_mark {{ @b = count(); }} interval:ms:1500 {{ exit(); }}"
    with hot(path) as process, tracing(tmp_path, "--backend", backend, "-e", hot_one, "-p", str(process.pid)):
        args = ("--backend", backend, "--max-rate", "1000", "-f", "json", "-e", calm_one, "-p", str(process.pid))
        done = tracer(*args)
    assert (done.status, done.said) == (0, "Attached 2 probes\n")
    assert maps(done)["@b"] > 10


def test_a_trace_with_nothing_left_to_trace_ends(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    with hot(path) as process:
        program = f"usdt:{path}:hot:spin {{ @a = count(); }} END {{ printf(\"over\\n\"); }}"
        done = tracer("--backend", backend, "--max-rate", "1000", "-e", program, "-p", str(process.pid))
        assert process.poll() is None
    assert done.status == 0
    assert re.fullmatch(r"over\n@a: \d+\n", done.text)
    assert "incomplete from here on: @a; nothing is attached any more\n" in done.said


def test_a_flood_that_nobody_reads_ends_too(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("hot")
    program = f'usdt:{path}:hot:spin {{ printf("%d %s\\n", arg0, comm); }}'
    with hot(path) as process:
        args = ("--backend", backend, "--max-rate", "100000", "-e", program, "-p", str(process.pid))
        with subprocess.Popen([*TRACER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            speeds = [float(read_line(process))]
            end = time.monotonic() + PATIENCE_S
            while max(speeds) < SLOW_NS or speeds[-1] > FAST_NS:
                assert time.monotonic() < end, speeds[-10:]
                speeds.append(float(read_line(process)))
            assert running.poll() is None
            out, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0
    assert b"warning: detached: " in err
    assert len(out.splitlines()) > 100_000


@pytest.mark.parametrize("whom", ["everybody", "-p", "--follow"])
def test_a_semaphore_goes_down_with_its_attach_point(
    whom: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path, other = place("ticker"), place("hot")
    with target(path, "60", "2") as process:
        options = {"everybody": [], "-p": ["-p", str(process.pid)], "--follow": ["-p", str(process.pid), "--follow"]}
        program = f"usdt:{path}:ticker:tick {{ @a = count(); }} uprobe:{other}:spin {{ @b = count(); }}"
        args = ("--backend", backend, "--max-rate", "100", *options[whom], "-e", program)
        with tracing(tmp_path, *args) as running:
            running.wait_for("warning: detached: ")
            until(lambda: semaphore(process, path, "ticker_tick_semaphore") == 0)
            assert process.poll() is None
            done = running.stop()
    assert "incomplete from here on: @a\n" in done.said


@pytest.mark.parametrize("without", ["uprobe_multi", "inherit_thread", "ref_ctr", "format_lost"])
def test_older_kernels_have_the_limit_too(
    without: str, backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    with target(path, "60", "2") as process:
        program = f"usdt:{path}:ticker:tick {{ @a = count(); }}"
        args = ("--backend", backend, "--max-rate", "100", "--usdt-file-activation", "-e", program)
        done = tracer(*args, "-p", str(process.pid), env={"TRACER_WITHOUT": without})
        assert process.poll() is None
        assert semaphore(process, path, "ticker_tick_semaphore") == 0
    assert done.status == 0
    assert "incomplete from here on: @a; nothing is attached any more\n" in done.said


def test_intervals_and_the_command_go_on_without_probes(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("hot")
    program = f"usdt:{path}:hot:spin {{ @a = count(); }} interval:ms:1500 {{ exit(); }}"
    done = tracer("--backend", backend, "--max-rate", "1000", "-f", "json", "-e", program, "-c", f"{path} 30")
    assert sum(not line.startswith("{") for line in done.text.splitlines()) > 20
    start = time.monotonic()
    done = tracer("--backend", backend, "--max-rate", "1000", "-e", program.split(" interval")[0], "-c", f"{path} 2")
    assert time.monotonic() - start > 2.0
    assert done.status == 0


@pytest.mark.parametrize("limit", ["0", "-5"])
def test_a_limit_is_positive(limit: str) -> None:
    done = tracer("--max-rate", limit, "-e", "BEGIN { exit(); }")
    assert (done.status, done.out) == (2, b"")
    assert done.err == f"tracer: error: --max-rate {limit}: a limit is positive; it counts hits a second\n"


def test_a_limit_is_a_number() -> None:
    done = tracer("--max-rate", "fast", "-e", "BEGIN { exit(); }")
    assert (done.status, done.out) == (2, b"")
    assert "--max-rate" in done.err and "fast" in done.err
