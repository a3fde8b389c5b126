"""Files of a file system that does not answer hold up nothing for good: a line says it, and Ctrl-C ends tracer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import target, tracing
from tests.harness.silent_files import LOOKUP, OPEN, silent_file
from tracer import opening
from tracer.servers import of_process, served

WAITING = "tracer: waiting for the file system of {}, which does not answer\n"


WORDS = {
    "program": ("{}",),
    "attach point": ("-e", "uprobe:{}:f {{ @ = count(); }}"),
    "command": ("-e", "BEGIN {{ exit(); }}", "-c", "{}"),
    "import": ("-e", 'import "{}"; BEGIN {{ exit(); }}'),
    "header": ("-e", '#include "{}"\nBEGIN {{ exit(); }}'),
    "list": ("-l", "uprobe:{}:*"),
}
CASES = [
    *((words, (LOOKUP,)) for words in WORDS),
    *(("attach point", silent) for silent in ((), (OPEN,))),
]


@pytest.mark.parametrize(("which", "silent"), CASES, ids=lambda each: str(each))
def test_a_start_waits_for_no_server_that_is_silent(which: str, silent: tuple[int, ...], tmp_path: Path) -> None:
    with silent_file(tmp_path, *silent) as file:
        words = tuple(word.format(file) for word in WORDS[which])
        with tracing(tmp_path, *words, ready="does not answer") as trace:
            begun = time.monotonic()
            done = trace.stop()
    assert time.monotonic() - begun < 5
    assert (done.status, done.out, done.err) == (1, b"", f"{WAITING.format(file)}tracer: interrupted\n")


def test_a_trace_that_asks_for_such_a_file_ends_in_order(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("ticker")
    with silent_file(tmp_path) as file, target(path, 30):
        program = f'usdt:{path}:ticker:tick {{ @ = count(); }} interval:ms:300 {{ cat("{file}"); }}'
        with tracing(tmp_path, "--backend", backend, "-e", program, ready="does not answer") as trace:
            done = trace.stop()
    assert done.status == 0 and done.out.startswith(b"@: ")
    assert f"ERROR: failed to open file '{file}' (its file system does not answer)\n" in done.err


def test_the_files_of_a_process_are_waited_for_by_its_own_mounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with silent_file(tmp_path) as file, target("sleep", 60) as process:
            assert str(file.parent) in of_process(str(process.pid))
            (tmp_path / "link").symlink_to(file)
            (tmp_path / "own").mkdir()
            for path in (tmp_path / "link", f"/proc/{process.pid}/root{file}", tmp_path / "own/../silent/./file"):
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                with pytest.raises(InterruptedError):
                    opening.opened(str(path))
        # The others are not asked.
        os.close(opening.opened(f"/proc/self/root{__file__}"))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_file_systems_that_are_served_are_told_from_others() -> None:
    lines = (
        "36 35 0:34 / /mnt/a\\040b rw - fuse.sshfs host: rw",
        "37 35 0:35 / /sys/fs/fuse/connections rw - fusectl fusectl rw",
        "38 35 0:36 / /home rw shared:1 - nfs4 host:/home rw",
        "39 35 8:1 / / rw - ext4 /dev/sda1 rw",
    )
    assert served("\n".join(lines)) == {"/mnt/a b", "/home"}
