"""The names of descriptors hold for the time in which they are known to have held."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tracer.host.clock import clock_ns
from tracer.host.descriptors import EPOCH, Descriptors

LATER_NS = 10_000_000_000


def test_a_name_is_of_the_term_in_which_it_was_read(tmp_path: Path) -> None:
    names, ours = Descriptors(), os.getpid()
    with open(tmp_path / "first", "w") as file:
        names.used(ours, file.fileno(), 3)
        assert names.name(ours, file.fileno(), 3) == os.fsencode(file.name)
        assert names.name(ours, file.fileno(), 4) is None
        names.closed(clock_ns() + LATER_NS, ours, file.fileno(), 3)
        assert names.name(ours, file.fileno(), 3) == os.fsencode(file.name)
        names.forget()
        assert names.name(ours, file.fileno(), 3) is None


def test_a_name_that_may_be_of_the_file_that_came_next_is_not_believed(tmp_path: Path) -> None:
    names, ours = Descriptors(), os.getpid()
    with open(tmp_path / "second", "w") as file:
        closed_before, number = clock_ns(), file.fileno()
        names.used(ours, number, 0)
        names.used(ours, number, EPOCH)
        names.opened(ours, number, 0, b"first")
        assert names.name(ours, number, 0) == os.fsencode(file.name)
        names.closed(closed_before, ours, number, 0)
        assert names.name(ours, number, 0) == b"first"
        names.all_closed(closed_before, ours, 1)
        assert names.name(ours, number, EPOCH) is None


def test_a_process_that_is_gone_has_no_names() -> None:
    names = Descriptors()
    names.used(2**31 - 1, 0, 0)
    names.closed(clock_ns(), 2**31 - 1, 0, 0)
    names.closed(clock_ns(), 2**31 - 1, 1, 0)
    names.opened(2**31 - 1, 7, 1, b"name")
    names.copied(2**31 - 1, 7, 1, 0, 2)
    names.copied(2**31 - 1, 8, 1, 0, 3)
    assert (names.name(2**31 - 1, 0, 2), names.name(2**31 - 1, 0, 3)) == (b"name", None)
    assert names.name(2**31 - 1, 0, 0) is None


def test_what_a_program_is_given_is_known_before_it_is_used() -> None:
    with subprocess.Popen(["sleep", "100"], stdin=subprocess.DEVNULL) as process:
        names = Descriptors()
        names.used(process.pid, 7, EPOCH + 3)
        process.kill()
    names.used(process.pid, 0, EPOCH)
    names.used(process.pid, 0, EPOCH + 1)
    assert [names.name(process.pid, 0, EPOCH + closed) for closed in (0, 1)] == [b"/dev/null", None]
