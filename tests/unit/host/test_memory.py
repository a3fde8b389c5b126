"""The memory of other processes is read through one door, and that never waits for a page that may never come."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness.cli import read_line, target, tracer, until
from tests.targets.build import build
from tracer.host.memory import content_of, environment_of, open_memory, read, words_of, write
from tracer.host.named import named


def test_memory_of_a_process_is_read_and_written() -> None:
    with subprocess.Popen(["sleep", "9"]) as process:
        try:
            maps = Path(f"/proc/{process.pid}/maps")
            until(lambda: "libc" in maps.read_text())
            memory = open_memory(process.pid, write=True)
            lines = maps.read_text().splitlines()
            stack = next(line for line in lines if line.endswith("[stack]"))
            address = int(stack.split("-")[1].split()[0], 16) - 8
            write(memory, b"\1\2", address - 64)
            assert read(memory, 2, address - 64) == b"\1\2"
            libc = next(line for line in lines if "libc" in line and " r--p 00000000 " in line)
            assert read(memory, 4, int(libc.split("-")[0], 16)) == b"\x7fELF"
            with pytest.raises(OSError):
                read(memory, 4, 16)
            os.close(memory)
        finally:
            process.kill()


@pytest.mark.live
@pytest.mark.clock
def test_a_page_that_never_comes_is_not_waited_for() -> None:
    with target(build("unserved"), "1", "-", "wait") as process:
        assert read_line(process) == "ready"
        smaps = Path(f"/proc/{process.pid}/smaps").read_text()
        served = r"^([0-9a-f]+)-[^\n]*\n(?:[A-Z](?!mFlags)[^\n]*\n)*VmFlags:[^\n]* um\b"
        flagged = re.search(served, smaps, re.MULTILINE)
        assert flagged is not None
        address = int(flagged[1], 16)
        memory = open_memory(process.pid, write=True)
        begun = time.monotonic()
        for act in (lambda: read(memory, 8, address), lambda: write(memory, b"1", address)):
            with pytest.raises(OSError) as raised:
                act()
            assert raised.value.errno == errno.EAGAIN
        assert time.monotonic() - begun < 3
        os.close(memory)


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["sleep", "9"], {"A": "1", "B": ""}),
        (["sleep", "9" * 5000], {}),
        (["perl", "-e", "$0 = 'short'; print 1; sleep 9"], {"A": "1"}),
        (["perl", "-e", "$0 = 'long' x 60; $| = 1; print 1; sleep 9"], {"A": "1" * 999, "B": "2"}),
    ],
)
def test_words_and_variables_are_what_proc_shows(words: list[str], env: dict[str, str]) -> None:
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE) as process:
        try:
            time.sleep(0.2)
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert (words_of(process.pid), shown != b"") == (shown, True)
            assert environment_of(process.pid) == Path(f"/proc/{process.pid}/environ").read_bytes()
            task = f"/proc/{process.pid}/task/{process.pid}/cmdline".encode()
            assert (content_of(task), content_of(b"/proc/version")) == (shown, None)
        finally:
            process.kill()


@pytest.mark.live
def test_words_on_a_page_that_never_comes_are_not_waited_for() -> None:
    with target(build("unserved"), "words", "w" * 20_000, env={"X": "x" * 20_000}) as process:
        assert read_line(process) == "ready"
        begun = time.monotonic()
        for of in (words_of, environment_of):
            with pytest.raises(OSError) as raised:
                of(process.pid)
            assert raised.value.errno == errno.EAGAIN
        assert named(process.pid) == f"process {process.pid} (unserved)"
        done = tracer("-q", "-e", f'BEGIN {{ cat("/proc/{process.pid}/cmdline"); exit(); }}', timeout=9)
        why = "its page has to come from another process or machine"
        assert done.err == f"ERROR: failed to open file '/proc/{process.pid}/cmdline' ({why})\n"
        assert time.monotonic() - begun < 9
