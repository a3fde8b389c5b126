"""Which processes a number, a name and `--children` mean, and what is said of those that mean none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.harness.cli import until
from tracer.errors import TracerError
from tracer.host.stat import facts_of
from tracer.target.chosen import described
from tracer.target.running import processes_of


@contextmanager
def sleeper(path: Path | str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([path, *(words or ("100",))], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(os.fsencode(path)))
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A program whose name is longer than what the kernel keeps."""
    return Path(shutil.copy("/bin/sleep", tmp_path / f"{os.getpid()}-sleeper-of-{tmp_path.name[-2:]}"))


def said(*asked: str | int, children: bool = False) -> tuple[str, str | None]:
    with pytest.raises(TracerError) as caught:
        processes_of(asked, children)
    return caught.value.message, caught.value.hint


def test_each_number_and_each_name_mean_a_process_once_whatever_names_it(long: Path) -> None:
    with ExitStack() as stack:
        first, second, other = (stack.enter_context(sleeper(each)).pid for each in (long, long, "/bin/sleep"))
        for asked in ([first, second], [f"{first},{second},{first}"], [f"{long.name},{first}"], [long.name[:15]]):
            with processes_of(asked) as found:
                assert found.pids == (first, second)
                assert bool(found.chosen) == ("sleeper" in str(asked[0]))
        with processes_of([other, long.name]) as found:
            assert found.pids == (other, first, second)
        since = time.strftime("%H:%M", time.localtime())[:2]
        with processes_of([long.name]) as found:
            about = rf"{long.name} \(root, since {since}:\d\d:\d\d\)"
            assert re.fullmatch(f"2 processes: {first} {about}, {second} {about}", found.chosen)
        assert re.fullmatch(f"{first} {about}: {long} 100", described(first))


def test_it_ends_with_the_last_and_each_end_wakes_who_waits_once(long: Path) -> None:
    import select

    with sleeper(long) as first, sleeper(long) as second, processes_of([first.pid, second.pid]) as found:
        assert not found.ended() and select.select([found.pidfd], [], [], 0)[0] == []
        first.kill()
        assert select.select([found.pidfd], [], [], 60)[0] == [found.pidfd]
        assert not found.ended() and select.select([found.pidfd], [], [], 0)[0] == []
        second.kill()
        assert select.select([found.pidfd], [], [], 60)[0] == [found.pidfd]
        assert found.ended()


def test_children_are_all_that_descend_and_run(long: Path) -> None:
    script = f"sh -c '{long} 9 & {long} 9 & wait' & true & echo; sleep 9 & wait"
    with sleeper("/bin/sh", "-c", script) as shell:
        assert shell.stdout is not None and shell.stdout.readline() == b"\n"

        def descendants() -> list[str]:
            with processes_of([shell.pid], children=True) as found:
                return re.findall(r"\d+ (\S+) \(", found.chosen)

        until(lambda: sorted(descendants()) == sorted(["sh", "sh", "sleep", long.name, long.name]), what=descendants)
        with processes_of([long.name], children=True) as found:
            assert len(found.pids) == 2 and found.chosen.startswith("2 processes: ")


def test_what_means_no_process_is_said_with_what_is_near(long: Path) -> None:
    with sleeper(long):
        other = long.name[:-1] + "x"
        assert said(other) == (f"no process has the name {other}", f"did you mean {long.name}?")
    assert said("0^_^0") == ("no process has the name 0^_^0", "list processes with: ps -e")
    of_kernel = "only user programs have probes that can be traced"
    assert said("kthreadd") == ("process 2 (kthreadd) is a thread of the kernel", of_kernel)
    assert said(2) == ("2 is a thread of the kernel", of_kernel)
    assert said("1,") == ("-p 1,: a number or a name is missing", None)
    assert said(os.getpid(), "-7") == ("-p -7: a process number is positive", None)


def test_a_zombie_is_no_process_and_said_to_be_one(long: Path) -> None:
    with sleeper(long) as process:
        process.kill()
        until(lambda: (facts := facts_of(process.pid)) is not None and facts.state == "Z")
        text = f"process {process.pid} ({long.name[:15]}) has ended, and is listed until its parent asks for its status"
        assert said(process.pid) == (f"{text} (a zombie)", None)
        assert said(long.name[:15])[0].endswith("(a zombie)")
