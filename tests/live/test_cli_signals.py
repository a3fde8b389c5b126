"""Signals that a program sends: the traced process says which ones came, and to which thread."""

from __future__ import annotations

import os

import pytest

from tests.harness.cli import tracer
from tests.targets.build import build

pytestmark = pytest.mark.live


def received(body: str) -> tuple[int, list[str], str]:
    """The status, what the process says, and what tracer says on stderr."""
    path = build("signalled")
    done = tracer("-q", "--unsafe", "--backend", "bcc", "-e", f"uprobe:{path}:hit {body}", "-c", str(path))
    return done.status, done.text.split("\n"), done.err


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{ signal("USR1"); }', ["10 10"]),
        ('/arg0 == 3/ { signal("sigusr2"); }', ["12 2"]),
        ("{ signal((int32)arg0 + 35); }", [f"{number} 2" for number in range(35, 40)]),
    ],
)
def test_a_process_gets_each_signal_once(body: str, said: list[str]) -> None:
    status, lines, err = received(body)
    assert (status, err) == (0, "")
    assert [line.rpartition(" ")[0] for line in lines if line] == said


def test_a_thread_gets_its_own() -> None:
    status, lines, err = received('/tid != pid/ { if (arg0 == 3) { signal_thread("USR1"); } signal_thread(40); }')
    assert (status, lines, err) == (0, ["10 1 1", "40 5 5", ""], "")


def test_a_process_can_be_killed_where_it_stands() -> None:
    status, lines, err = received('/arg0 == 2/ { signal("KILL"); printf("%d\\n", arg0); exit(); }')
    assert (status, lines) == (0, ["2", ""])
    assert "SIGKILL" in err


def test_a_number_of_no_signal_is_said_at_each_hit() -> None:
    status, lines, err = received("/tid == pid/ { signal(arg0 * 30); @++; }")
    assert (status, lines) == (0, ["30 1 0", "60 1 0", "@: 5", ""])
    # The numbers are 0, 30, 60, 90 and 120.
    wrong = [line.rpartition(" ")[2] for line in err.splitlines() if "expects an integer between 1 and 64" in line]
    assert wrong == ["0", "90", "120"]


def test_ftrace_refuses_and_so_does_a_run_that_is_not_unsafe() -> None:
    path = build("signalled")
    program = f"uprobe:{path}:hit {{ signal(9); }}"
    refused = tracer("--unsafe", "--backend", "ftrace", "-e", program, "-c", str(path))
    assert refused.status != 0 and "signal() is not available with ftrace" in refused.err
    done = tracer("-e", program, "-c", str(path))
    assert (done.status, done.out) == (2, b"") and "signal() is unsafe" in done.err


def test_the_cgroup_of_a_hit_is_that_of_begin() -> None:
    path = build("signalled")
    program = f"BEGIN {{ @[cgroup] = count(); }} uprobe:{path}:hit {{ @[cgroup] = count(); }}"
    done = tracer("-q", "--backend", "bcc", "-e", program, "-c", str(path))
    assert done.status == 0 and done.text.count("@[") == 1 and done.text.endswith("]: 11\n"), done.text
    refused = tracer("--backend", "ftrace", "-e", program, "-c", str(path))
    assert "cgroup is not available with ftrace" in refused.err


def test_cgroupid_is_the_number_of_the_folder() -> None:
    with open("/proc/self/mountinfo") as file:
        points = [line.split(" ")[4] for line in file if " - cgroup2 " in line]
    if not points:
        pytest.skip("no cgroup2 is mounted here")
    folder = os.path.join(points[0], f"tracer-test-{os.getpid()}")
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("no cgroup can be made here")
    try:
        path = build("signalled")
        number = os.stat(folder).st_ino
        program = (
            f'uprobe:{path}:hit /cgroup == cgroupid("{folder}")/ {{ @[cgroup] = count(); }} '
            'END { for ($kv : @) { @path[cgroup_path($kv.0, "unified")] = $kv.1; } }'
        )
        inside = ("/bin/sh", "-c", f'echo $$ > "{folder}/cgroup.procs" && exec "{path}"')
        done = tracer("-q", "--backend", "bcc", "-e", program, "-c", " ".join((inside[0], inside[1], f"'{inside[2]}'")))
        # Where a part of the hierarchy is mounted, that is where paths begin.
        wanted = f"@[{number}]: 10\n@path[unified:/{os.path.basename(folder)}]: 10\n"
        assert (done.status, done.text) == (0, wanted), done.err
    finally:
        os.rmdir(folder)
