"""Memory whose pages never come: of a userfaultfd that nobody serves, and of a file system that does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cli import Done, read_line, target, tell, tracer, tracing
from tests.harness.silent_files import silent_file

pytestmark = [pytest.mark.live, pytest.mark.clock, pytest.mark.usefixtures("clean")]  # all removals wait for it

READS = "uprobe:{}:take {{ @[arg0, str(arg1)] = count(); }}"
LEFT_OUT = (
    "tracer: 5 hits left out: an argument or string could not be read there; its memory was not mapped,"
    " has to come from another process or machine, or holds no such value\n"
)


@pytest.fixture(params=["userfaultfd", "silent file"])
def words(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str | Path]]:
    """What the target is told: how many rounds, and which file."""
    if request.param == "userfaultfd":
        yield ["5"]
        return
    with silent_file(tmp_path) as file:
        yield ["5", file]


def _counted(done: Done) -> None:
    assert done.status == 0
    assert done.out == b"ready\ndone\n@[2, \x7fELF\x02\x01\x01]: 5\n@[3, warm]: 5\n"
    assert done.err == f"Attached 1 probe\n{LEFT_OUT}"


def test_bcc_leaves_such_hits_out_and_waits_for_other_pages(
    place: Callable[[str], Path], words: list[str | Path]
) -> None:
    program = place("unserved")
    started = time.monotonic()
    _counted(
        tracer("--backend", "bcc", "-e", READS.format(program), "-c", " ".join(map(str, [program, *words])), timeout=9)
    )
    assert time.monotonic() - started < 9


@pytest.mark.parametrize("read", ["*(uint64 *)arg1", "buf(arg1, 16)", "str(arg1, 8)", "strncmp(str(arg1), \"x\", 1)"])
def test_every_way_of_reading_on_bcc_leaves_them_out(place: Callable[[str], Path], read: str) -> None:
    program = place("unserved")
    text = f"uprobe:{program}:take /arg0 == 1/ {{ @ = count(); @x[arg0] = {read}; }}"
    done = tracer("--backend", "bcc", "-e", text, "-c", f"{program} 5", timeout=9)
    assert done.err == f"Attached 1 probe\n{LEFT_OUT}"
    assert done.out.startswith(b"ready\ndone\n")


WHAT = {
    "userfaultfd": "memory that a userfaultfd serves",
    "silent file": "a file of the file system fuse in its memory",
}


def test_ftrace_reads_nothing_in_a_process_that_has_such_memory(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    program, what = place("unserved"), WHAT[request.node.callspec.params["words"]]
    file = words[1] if len(words) > 1 else "-"
    with target(program, "5", file, "wait") as process:
        assert read_line(process) == "ready"
        text = READS.format(program)
        done = tracer("--backend", "ftrace", "-e", text, "-p", str(process.pid), timeout=8)
        assert done.status == 1
        assert done.err == (
            f"{text}\n{'^' * text.index(' ')} error: process {process.pid} (unserved) has {what}, whose pages another"
            " process or machine brings: a read there waits in the kernel, and may never end;"
            " --backend bcc reads without waiting for such pages; or read no memory, as count() does\n"
        )
        counts = f"uprobe:{program}:take {{ @[arg0] = count(); if (arg0 == 3) {{ @n++; if (@n == 5) {{ exit(); }} }} }}"
        with tracing(program.parent, "--backend", "ftrace", "-e", counts, "-p", str(process.pid)) as running:
            tell(process)
            assert read_line(process) == "done"
            assert running.wait().out == b"@[1]: 5\n@[2]: 5\n@[3]: 5\n@n: 5\n"


def test_ftrace_detaches_what_reads_when_such_memory_comes_during_the_trace(
    place: Callable[[str], Path], words: list[str | Path], request: pytest.FixtureRequest
) -> None:
    program, what = place("unserved"), WHAT[request.node.callspec.params["words"]]
    file = words[1] if len(words) > 1 else "-"
    with target(program, "later", "5", file, "wait") as process:
        text = READS.format(program)
        with tracing(program.parent, "--backend", "ftrace", "-e", text, "-p", str(process.pid)) as running:
            tell(process)
            assert read_line(process) == "ready"
            time.sleep(3)  # it is looked at every second
            tell(process)
            assert read_line(process, timeout=3) == "done"
            done = running.stop()
        assert (done.status, done.out) == (0, b"")
        assert (
            "the output is incomplete: what reads memory was detached, since process"
            f" {process.pid} (unserved) has {what} now, whose pages another process or machine brings: a read there"
            " waits in the kernel, and may never end; --backend bcc does not wait for them\n"
        ) in done.err
