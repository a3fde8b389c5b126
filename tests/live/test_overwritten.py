"""A file that is overwritten in place while it is probed: no probe is left when the first byte is written.

The kernel keeps a probe at its offset in the file, and a copy of the instruction that it was put on. So a process that
runs the new file would execute the instruction of the old one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE_S, read_line, target, tell, tracer, tracing
from tests.targets.build import build

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

_BREAKPOINT = 0xCC

_ASKED = """
import ctypes, sys
answer = ctypes.CDLL(sys.argv[1]).answer
for line in sys.stdin:
    print(answer(), flush=True)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "answer.so"
    shutil.copy(build("answer-1"), path)
    return path


def asked(library: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return target(sys.executable, "-c", _ASKED, library)


def answer(process: subprocess.Popen[bytes]) -> int:
    tell(process)
    return int(read_line(process))


def ended_for(library: Path) -> str:
    return (
        f"tracer: the trace was ended because somebody is about to write {library}:"
        " probes in a changing file harm the programs that run it\n"
    )


def test_who_overwrites_it_waits_until_the_probes_are_gone(backend: str, library: Path, tmp_path: Path) -> None:
    program = f"uprobe:{library}:answer {{ @ = count(); }}"
    with asked(library) as running, tracing(tmp_path, "--backend", backend, "-e", program) as trace:
        assert [answer(running) for _ in range(3)] == [1, 1, 1]
        subprocess.run(["cp", build("answer-2"), library], check=True, timeout=PATIENCE_S)
        with asked(library) as another:
            assert [answer(each) for each in (running, another, running, another)] == [2, 2, 2, 2]
        done = trace.wait()
    assert (done.status, done.text, done.err) == (0, "@: 3\n", "Attached 1 probe\n" + ended_for(library))
    assert library.read_bytes() == build("answer-2").read_bytes()


def test_the_command_may_write_it_and_is_not_ended(library: Path) -> None:
    command = f"cp {build('answer-2')} {library} && echo written && exit 3"
    done = tracer("-q", "-e", f"uprobe:{library}:answer {{ @ = count(); }}", "-c", f"sh -c '{command}'")
    assert (done.status, done.text.split()) == (0, ["written"])
    hint = f"sh itself does not use {library}; --follow traces what it starts, too"
    assert done.err == (
        f"{ended_for(library)}tracer: sh ended with status 3\ntracer: no probe was hit: {hint}\n"
    )


def test_a_command_of_the_program_may_write_it(library: Path) -> None:
    command = f"cp {build('answer-2')} {library} && echo written"
    program = f'uprobe:{library}:answer {{ @ = count(); }} interval:ms:1 {{ system("{command}"); }}'
    done = tracer("-q", "--unsafe", "-e", program)
    silent = f"tracer: no probe was hit: no process that runs now has loaded {library}\n"
    assert (done.status, done.text.split(), done.err) == (0, ["written"], ended_for(library) + silent)


def test_a_file_that_is_replaced_during_the_trace_is_told(backend: str, library: Path, tmp_path: Path) -> None:
    program = f"uprobe:{library}:answer {{ @ = count(); }}"
    with tracing(tmp_path, "--backend", backend, "-e", program) as trace:
        with asked(library) as running:
            assert answer(running) == 1
            shutil.copy(build("answer-2"), tmp_path / "new.so")
            (tmp_path / "new.so").rename(library)
            with asked(library) as another:
                assert [answer(running), answer(another)] == [1, 2]
        done = trace.stop()
    since = "programs started since then run the new file, which was not probed"
    told = f"tracer: {library} was replaced during the trace: {since}\n"
    assert (done.status, done.text, done.err) == (0, "@: 2\n", "Attached 1 probe\n" + told)


def first_byte(process: subprocess.Popen[bytes], library: Path) -> int:
    """Of the function, as it is in the process's memory."""
    start = next(
        int(line.partition("-")[0], 16)
        for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        if line.endswith(str(library)) and line.split()[2] == "00000000"
    )
    listed = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    (address,) = (int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(" T answer"))
    with open(f"/proc/{process.pid}/mem", "rb") as memory:
        memory.seek(start + address)
        return memory.read(1)[0]


def test_who_writes_waits_for_the_probes_of_a_killed_tracer_too(backend: str, library: Path, tmp_path: Path) -> None:
    program = f"uprobe:{library}:answer {{ @ = count(); }}"
    with asked(library) as running, tracing(tmp_path, "--backend", backend, "-e", program) as trace:
        assert answer(running) == 1
        children = Path(f"/proc/{trace.pid}/task/{trace.pid}/children").read_text().split()
        (watcher,) = (int(pid) for pid in children if Path(f"/proc/{pid}/comm").read_bytes() == b"uprobe-undo\n")
        os.kill(watcher, signal.SIGSTOP)
        try:
            trace.signal(signal.SIGKILL)
            trace.wait()
            with pytest.raises(BlockingIOError):
                os.open(library, os.O_WRONLY | os.O_NONBLOCK)
            assert first_byte(running, library) == _BREAKPOINT
        finally:
            os.kill(watcher, signal.SIGCONT)
        with library.open("r+b"):
            assert first_byte(running, library) != _BREAKPOINT


def test_a_stopped_tracer_goes_on_and_ends(backend: str, library: Path, tmp_path: Path) -> None:
    program = f"uprobe:{library}:answer {{ @ = count(); }}"
    with asked(library) as running, tracing(tmp_path, "--backend", backend, "-e", program) as trace:
        assert answer(running) == 1
        trace.signal(signal.SIGSTOP)
        os.waitpid(trace.pid, os.WUNTRACED)
        with library.open("r+b"):
            assert first_byte(running, library) != _BREAKPOINT
        done = trace.wait()
    assert (done.status, done.text, done.err) == (0, "@: 1\n", "Attached 1 probe\n" + ended_for(library))
