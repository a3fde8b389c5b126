"""Attach points that are never hit, each for a reason that a program of ours brings about."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import target, tracer, tracing, until
from tests.live.answers import records
from tests.targets.symbols import symbol_addresses

pytestmark = pytest.mark.live

Place = Callable[[str], Path]
SECOND = "interval:ms:600 { exit(); }"


def said(err: str) -> list[str]:
    """What was said after that the probes are attached; before it was that a function was also inlined."""
    err = re.sub(r"^.*\n *\^+ warning: .* was also inlined .*\n", "", err, flags=re.M)
    return [line.removeprefix("tracer: ") for line in err.splitlines() if not line.startswith("Attached")]


def running(process: subprocess.Popen[bytes], path: Path) -> None:
    """Until the process has gone through exec."""
    until(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(path))


@pytest.mark.leaks("uprobe-undo")  # the target sets its semaphore back all the time
def test_each_attach_point_has_its_reason(backend: str, place: Place, clean: None) -> None:
    path, ticker = place("silent"), place("ticker")
    wanted = f"usdt:{path}:silent:gated", f"uprobe:{path}:twice", f"uprobe:{path}:unused", f"uprobe:{path}:chosen"
    program = " ".join(f"{each} {{ @[{number}] = count(); }}" for number, each in enumerate(wanted))
    with target(path, 60) as process, target(ticker, 60) as other:
        running(process, path)
        running(other, ticker)
        whom = f"process {process.pid} (silent)"
        program += f" usdt:{ticker}:ticker:tick {{ @hits = count(); }} {SECOND}"
        done = tracer("--backend", backend, "-f", "json", "-e", program)
        assert said(done.err) == [
            f"{wanted[0]} was never hit: its semaphore reads 0 in {whom}, which therefore skips the probe",
            f"{wanted[1]} was never hit: twice was inlined at 3 places (in bake and shop),"
            " and its own code was not called; config = { inlined = true } counts them",
            f"{wanted[2]} was never hit: {whom} has loaded {path}, but did not call it",
            f"{wanted[3]} was never hit: chosen is an indirect function (ifunc), and chosen_here, what its resolver"
            " chooses here, is probed: no process came by there, though one that chose another may have called it",
        ]
        told = records(done, "never_hit")
        assert [each["data"]["probe"] for each in told] == list(wanted)
        assert told[2]["data"]["reason"] == f"{whom} has loaded {path}, but did not call it"
        quiet = tracer("-q", "--backend", backend, "-f", "json", "-e", program)  # one was hit: there is an answer
        assert (said(quiet.err), records(quiet, "never_hit")) == ([], [])


@pytest.mark.parametrize("whom", ["-p", "everybody"])
def test_a_silent_trace_says_why_after_five_seconds(
    backend: str, place: Place, tmp_path: Path, clean: None, whom: str
) -> None:
    path = place("silent")
    with target(path, 60) as process:
        running(process, path)
        options = ("-p", str(process.pid)) if whom == "-p" else ()
        program = f"uprobe:{path}:twice, uprobe:{path}:unused {{ @ = count(); }}"
        begun = time.monotonic()
        with tracing(tmp_path, "--backend", backend, *options, "-e", program) as trace:
            trace.wait_for("was not hit in the first 5 s")
            assert time.monotonic() - begun >= 5
            trace.wait_for("unused was not hit in the first 5 s")
            assert len(said(trace.err)) == 2
            done = trace.stop()
        # Why is not said again.
        assert said(done.err)[2:] == ["no probe was hit"]


@pytest.mark.leaks("uprobe-undo")  # the target sets its semaphore back all the time
def test_after_five_seconds_with_hits_only_what_nobody_runs_or_lets_pass_is_told(
    backend: str, place: Place, tmp_path: Path, clean: None
) -> None:
    path = place("silent")
    idle = path.with_name("silent_idle")
    shutil.copy(path, idle)
    with target(path, 60) as process:
        running(process, path)
        never = f"usdt:{path}:silent:gated", f"uprobe:{idle}:shop", f"uprobe:{path}:unused"
        program = f"{', '.join(never)}, uprobe:{path}:shop {{ @[probe] = count(); }}"
        begun = time.monotonic()
        with tracing(tmp_path, "--backend", backend, "-e", program) as trace:
            trace.wait_for("silent_idle:shop was not hit")
            assert time.monotonic() - begun >= 5
            done = trace.stop()
        whom = f"process {process.pid} (silent)"
        # Why is not said again.
        assert said(done.err) == [
            f"{never[0]} was not hit in the first 5 s:"
            f" its semaphore reads 0 in {whom}, which therefore skips the probe",
            f"{never[1]} was not hit in the first 5 s: no process that runs now has loaded {idle}",
            f"{never[0]} was never hit",
            f"{never[1]} was never hit",
            f"{never[2]} was never hit: {whom} has loaded {path}, but did not call it",
        ]


def test_a_file_that_was_replaced_while_it_runs_is_told_by_the_process(
    backend: str, place: Place, clean: None
) -> None:
    path = place("ticker")
    with target(path, 60) as process:
        running(process, path)
        shutil.copy(path, path.with_name("new"))
        os.replace(path.with_name("new"), path)
        done = tracer("--backend", backend, "-e", f"usdt:{path}:ticker:tick {{ @ = count(); }} {SECOND}")
        other = f"process {process.pid} (ticker) runs another ticker, which has been replaced since, not {path}"
        hint = "programs started now run this one, and -p PID probes the other"
        assert said(done.err) == [f"no probe was hit: {other}: {hint}"]


@pytest.mark.parametrize("quiet", [[], ["-q"]], ids=["", "-q"])
def test_of_an_old_and_a_new_file_of_one_path_the_old_ones_processes_are_told(
    quiet: list[str], backend: str, place: Place, clean: None
) -> None:
    path = place("ticker")
    with target(path, 60) as old, target(path, 60) as older:
        running(old, path)
        running(older, path)
        shutil.copy(path, path.with_name("new"))
        os.replace(path.with_name("new"), path)
        with target(path, 60) as new:
            running(new, path)
            program = f"usdt:{path}:ticker:tick {{ @[pid] = count(); }} {SECOND}"
            done = tracer("--backend", backend, *quiet, "-e", program)
    assert done.text.startswith(f"@[{new.pid}]: ") and done.text.count("\n") == 1
    first, second = sorted((old.pid, older.pid))
    assert said(done.err) == [
        f"processes {first} and {second} run an older {path}, replaced since, and are not traced; -p PID traces one"
    ]


@pytest.mark.parametrize("body", ["@[1] = count();", 'printf("hit\\n");'])
def test_a_predicate_that_never_held_is_told_with_the_number_of_hits(
    backend: str, place: Place, clean: None, body: str
) -> None:
    path = place("ticker")
    program = f"usdt:{path}:ticker:tick /arg0 < 0/ {{ {body} }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 0.3 10")
    assert done.text == "30\n"
    assert said(done.err) == [f"usdt:{path}:ticker:tick was hit 30 times, and its predicate never held"]
    quiet = tracer("--backend", backend, "-q", "-e", program, "-c", f"{path} 0.3 10")
    assert (quiet.text, said(quiet.err)) == ("30\n", said(done.err))  # it is why there is no answer


@pytest.mark.parametrize(
    "program",
    [
        "{0} /arg0 > 28/ {{ @[1] = count(); }}",
        "{0} /arg0 < 0/ {{ @[1] = count(); }} END {{ clear(@); }}",
        "{0} /arg0 < 0/ {{ if (arg0) {{ @[1] = count(); }} }}",
        '{0} /arg0 < 0/ {{ printf("x"); }} {0} /arg0 == 3/ {{ printf("y"); }}',
        "{0} {{ $x = arg0; }}",
    ],
)
def test_where_it_is_not_known_that_a_predicate_never_held_nothing_is_said(
    backend: str, place: Place, clean: None, program: str
) -> None:
    path = place("ticker")
    text = program.format(f"usdt:{path}:ticker:tick")
    done = tracer("--backend", backend, "-e", text, "-c", f"{path} 0.3 10")
    assert said(done.err) == []


def test_many_attach_points_for_one_reason_share_a_line(backend: str, place: Place, clean: None) -> None:
    path, ticker = place("silent"), place("ticker")
    lines = ", ".join(f"uprobe:{path}:{name}" for name in ("shop", "bake", "unused", "main"))
    program = f"{lines}, usdt:{ticker}:ticker:tick {{ @[probe] = count(); }}"
    done = tracer("--backend", backend, "--follow", "-e", program, "-c", f"sh -c '{ticker} 0.3 10; :'")
    four = f"uprobe:{path}:shop, uprobe:{path}:bake, uprobe:{path}:unused and 1 more"
    reason = f"no process that runs now has loaded {path}"
    assert said(done.err) == [f"4 of 5 attach points were never hit ({four}): {reason}"]


def test_a_wildcard_is_one_attach_point(backend: str, place: Place, clean: None) -> None:
    path = place("many")
    done = tracer("--backend", backend, "-e", f"uprobe:{path}:* {{ @[probe] = count(); }} {SECOND}")
    assert said(done.err)[1:] == [f"no probe was hit: no process that runs now has loaded {path}"]


def test_places_of_a_wildcard_that_cannot_be_hit_are_told_and_with_v_all_that_were_not(
    backend: str, place: Place, clean: None
) -> None:
    path = place("silent")
    # The other clause has as many sites of the same texts, and a function of several attach points: each has its own.
    wanted = f"uprobe:{path}:[bstu]*", f"uprobe:{path}:shop, uprobe:{path}:[bst]*"
    program = " ".join(f"{each} {{ @[func] = count(); }}" for each in wanted)
    inlined = "twice was inlined at 3 places (in bake and shop), and its own code was not called"
    inlined += "; config = { inlined = true } counts them"
    for options in (), ("-v",), ("-q",):
        done = tracer("--backend", backend, *options, "-e", program, "-c", f"{path} 0.2")
        assert "@[bake]: 400\n@[shop]: 400\n" in done.text
        lines = [
            f"uprobe:{path}:[bstu]*: 1 of 4 places was never hit (twice): {inlined}",
            *[f"uprobe:{path}:[bstu]*: 1 of 4 places was never hit (unused)"] * ("-v" in options),
            f"uprobe:{path}:[bst]*: 1 of 2 places was never hit (twice): {inlined}",
        ]
        assert [each for each in said(done.err) if "never hit" in each] == (lines if "-q" not in options else [])


def test_a_file_of_a_wildcard_that_nobody_runs_is_told(backend: str, place: Place, clean: None) -> None:
    path = place("silent")
    idle = path.with_name("silent_idle")
    shutil.copy(path, idle)
    with target(path, 60) as process:
        running(process, path)
        done = tracer("--backend", backend, "-e", f"uprobe:{path}*:[bs]* {{ @ = count(); }} {SECOND}")
    point = f"uprobe:{path}*:[bs]*"
    assert said(done.err) == [
        f"{point}: 2 of 4 places were never hit (uprobe:{idle}:shop, uprobe:{idle}:bake):"
        f" no process that runs now has loaded {idle}"
    ]


def test_names_of_files_that_would_steer_a_terminal_are_escaped(backend: str, place: Place, clean: None) -> None:
    built = place("ticker")
    path = built.with_name("a\x1b[31m\nb")
    built.rename(path)
    done = tracer("--backend", backend, "-e", f'usdt:"{built.parent}/a*b":ticker:tick {{ @ = count(); }} {SECOND}')
    assert done.status == 0, done.err
    shown = str(path).replace("\x1b", "\\x1b").replace("\n", "\\n")
    assert said(done.err) == [f"no probe was hit: no process that runs now has loaded {shown}"]


def test_the_resolver_of_an_indirect_function_is_told(backend: str, place: Place, clean: None) -> None:
    path = place("silent")
    point = f"uprobe:{path}:{symbol_addresses(path)['resolver']:#x}"
    with target(path, 60) as process:
        running(process, path)
        time.sleep(0.1)  # it has been loaded
        done = tracer("--backend", backend, "-e", f"{point} {{ @ = count(); }} {SECOND}")
    (line,) = said(done.err)
    reason = "it is the resolver of chosen, an indirect function (ifunc): that runs when the file is loaded"
    assert line == f"no probe was hit: {reason}"
