"""User stacks: to their full depth, and with names for what has ended, exec'ed, been loaded late or been deleted."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import Done, read_line, target, tell, tracer, tracing

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

DEEPEST = 127  # frames: the language's limit, and the default of kernel.perf_event_max_stack


def frames(done: Done) -> list[str]:
    """The frames of the only stack that was printed, without offsets but that of `hit`."""
    assert done.status == 0
    (stack,) = re.findall(r"@\[\n(.*?)\n(?:, .*)?\]: 1\n", done.text, re.DOTALL)
    lines = [line.strip() for line in stack.splitlines()]
    return [line if line.startswith("hit+") else re.sub(r"\+\d+$", "", line) for line in lines]


def both(*args: str) -> Done:
    """What both backends answer, to the byte."""
    first, second = (tracer("--backend", backend, *args) for backend in ("bcc", "ftrace"))
    assert (first.status, first.out, first.err) == (second.status, second.out, second.err)
    return second


def whole(depth: int, *between: str) -> list[str]:
    """The stack at the entry of `hit`, whose direct caller is not on it: no frame pointer is set there yet."""
    return ["hit+0", *["dig"] * depth, *between, "main", "__libc_start_call_main"]


@pytest.mark.parametrize(
    ("depth", "asked", "found"),
    [(0, "", 3), (110, "", 113), (124, "", 127), (125, "", DEEPEST), (300, "", DEEPEST), (300, "(100)", 100),
     (300, "(127)", DEEPEST), (300, "(1)", 1)],
)  # fmt: skip
def test_a_deep_recursion_has_the_same_stack_on_both(
    depth: int, asked: str, found: int, place: Callable[[str], Path]
) -> None:
    path = place("digs")
    done = both("-e", f"uprobe:{path}:hit {{ @[ustack{asked}] = count(); }}", "-c", f"{path} {depth}")
    assert frames(done) == whole(depth)[:found]


def test_the_stack_of_a_process_that_was_never_seen_alive_has_names(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    path = place("digs")
    program = f"uprobe:{path}:hit {{ @[ustack, usym(arg1)] = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-e", program) as running:
        subprocess.run([path, "3"], check=True)
        done = running.stop()
    assert frames(done) == whole(3)
    assert ", dig]: 1\n" in done.text


def test_the_stack_after_an_exec_is_the_new_programs(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    path, other = place("digs"), tmp_path / "other"
    other.write_bytes(path.read_bytes())
    other.chmod(0o755)
    program = f"uprobe:{other}:hit {{ @[ustack, usym(arg1)] = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 2 exec {other}")
    assert frames(done) == whole(2)
    assert ", dig]: 1\n" in done.text


def test_a_library_that_is_loaded_late_and_closed_again_has_names(backend: str, place: Callable[[str], Path]) -> None:
    path, library = place("digs"), place("calls")
    program = f"uprobe:{path}:hit {{ @[ustack, usym(arg1)] = count(); }}"
    done = tracer("--backend", backend, "-e", program, "-c", f"{path} 2 load {library}")
    assert frames(done) == whole(2, "call")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_is_deleted_has_names_while_its_process_lives(
    when: str, backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    path = place("digs")
    with target(path, 3, "wait") as process:
        assert read_line(process) == "ready"
        file = path
        if when == "before":
            path.unlink()
            file = Path(f"/proc/{process.pid}/exe")
        program = f"uprobe:{file}:hit {{ @[ustack, usym(arg1)] = count(); }}"
        with tracing(tmp_path, "--backend", backend, "-p", str(process.pid), "-e", program) as running:
            if when == "after":
                path.unlink()
            tell(process)
            done = running.wait()
    assert frames(done) == whole(3)


def test_what_lies_in_a_file_that_is_gone_with_its_process_is_an_address(
    backend: str, place: Callable[[str], Path], tmp_path: Path
) -> None:
    path, library = place("digs"), place("calls")
    program = f"uprobe:{path}:hit {{ @[ustack] = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-e", program) as running:
        subprocess.run([path, "1", "load", library], check=True)
        library.unlink()
        done = running.stop()
    stack = frames(done)
    assert [frame for frame in stack if not frame.startswith("0x")] == whole(1)
    assert re.fullmatch("0x[0-9a-f]{9,}", stack[2])
