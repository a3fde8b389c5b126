"""The memory of other processes is read through one door, and that never waits for a page that may never come."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

import tracer
from tests.harness.cli import read_line, target, until
from tests.targets.build import build
from tracer.resolve.processes.memory import open_memory, read, write

_FOLDER = Path(tracer.__file__).parent
_DOOR = "resolve/processes/memory.py"
_OWN = "resolve/symbols/modules.py"
"""Reads tracer's own memory."""
_LEFT_BEHIND = "kernel/workers/removal.py"
"""Does so in a process that nobody waits for longer than some seconds."""


def test_nobody_else_opens_the_memory_of_a_process() -> None:
    opening = re.compile(r"open\(.*(?:/mem\b|\"mem\")|process_vm_(?:read|write)v\(|PTRACE_(?:PEEK|POKE)")
    found = {
        str(path.relative_to(_FOLDER))
        for path in _FOLDER.rglob("*.py")
        if opening.search(path.read_text())
    }
    assert found == {_DOOR, _OWN, _LEFT_BEHIND}


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
