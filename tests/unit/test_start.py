"""What each command imports beside Typer is paid for at each start: no heavy package, and so many modules at most."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.loaded import loaded

HEAVY = {
    "asyncio", "bcc", "capstone", "concurrent", "ctypes", "dataclasses", "decimal", "difflib", "elftools", "email",
    "hashlib", "hypothesis", "logging", "multiprocessing", "psutil", "pydantic", "random", "rich", "socket", "ssl",
    "subprocess", "tempfile", "threading", "tokenize", "unittest", "urllib", "xml",
}  # fmt: skip
"""Packages that take a millisecond or more. What needs one imports it in a function."""

CASES: dict[str, tuple[tuple[str, ...], int, set[str]]] = {
    "a program of BEGIN alone": (("-e", "BEGIN { exit(); }"), 115, set()),
    "a program with an error": (("-e", "BEGIN { x"), 32, set()),
    "a wrong command line": (("--nonsense",), 9, {"difflib"}),
    "the version": (("--version",), 5, set()),
    "the help": (("--help",), 33, set()),
    "the help of a command": (("run", "--help"), 8, set()),
    "a list of USDT probes": (("-l", "usdt:libc:*"), 43, set()),
    "a list of functions": (("-l", "uprobe:libc:*"), 58, {"ctypes"}),
    "what the host can do": (("info",), 58, {"ctypes"}),
}
"""The words, how many modules they may load, of ours and of others, and which heavy packages they need."""


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_imported_that_the_command_does_not_need(case: str, tmp_path: Path) -> None:
    words, most, needed = CASES[case]
    found = loaded(tmp_path, *words)
    assert {name.partition(".")[0] for name in found.other} & HEAVY <= needed
    own = found.modules - {"servers"}  # for file systems of FUSE, where the machine has one mounted
    assert len(own) + len(found.other) <= most, sorted(found.modules | found.other)
    assert "cli.app" in found.modules
    if words[0].startswith("-"):
        assert not any(name.startswith(("foreign", "cli.perf_tools")) for name in found.modules) or "--help" in words


def test_a_process_is_looked_at_once_while_a_program_for_it_is_planned(tmp_path: Path) -> None:
    points = "uprobe:libc:strlen, uprobe:libc:malloc, uretprobe:libc:free, uprobe:*:calloc"
    with subprocess.Popen(["/bin/sleep", "100"]) as process:
        found = loaded(tmp_path, "-d", "plan", "-p", str(process.pid), "-e", f"{points} {{ @[ustack] = count(); }}")
        process.kill()
    assert found.opened.count(f"/proc/{process.pid}/maps") == 1
    assert "target.running" in found.modules and "target.chosen" not in found.modules and "psutil" not in found.other


def test_a_program_of_begin_end_and_interval_cannot_even_reach_bpf(tmp_path: Path) -> None:
    """Without ctypes there is no way to bpf(2) or perf_event_open(2), and no process is started."""
    found = loaded(tmp_path, "-e", "BEGIN { @n++; } interval:ms:1 { exit(); } END { @n++; }")
    assert "ctypes" not in found.other and found.started == ()
    assert not any(name.startswith(("backends.bcc", "backends.ftrace")) for name in found.modules)
    assert [path for path in found.maps if "libffi" in path or "libcrypto" in path or "LLVM" in path] == []
