"""`tracer top`: what its table counts is what the program did; and the terminal is as it was, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import PATIENCE, PATIENCE_S, TRACER, environment, tracer

Place = Callable[[str], Path]


def test_the_totals_of_the_last_table_are_what_the_program_did(backend: str, place: Place) -> None:
    path = place("threads")
    words = ("--by", "arg0", "--value", "arg1", "--filter", "arg0 != 2", "-i", "100ms", "-q", "--backend", backend)
    text = tracer("top", f"{path}:work", *words, "-c", f"{path} 4 250").text
    *_, last = text.replace("done\n", "").strip().split("\n\n")
    _, head, *rows = last.splitlines()
    assert head.split() == ["rate/s", "total", "sum/s*", "p50", "p99", "max", "key"]
    assert {row.split()[-1]: row.split()[1] for row in rows} == {"0": "250", "1": "250", "3": "250"}


def test_json_has_an_object_for_each_look(backend: str, place: Place) -> None:
    path = place("threads")
    words = ("--value", "arg1", "--by", "arg0", "-i", "100ms", "--json", "-q", "--backend", backend)
    lines = tracer("top", f"{path}:work", *words, "-c", f"{path} 4 250").text.replace("done\n", "").splitlines()
    looks = [json.loads(line) for line in lines]
    assert {look["type"] for look in looks} == {"top"}
    rows = [row for look in looks for row in look["data"]["rows"]]
    assert {row["key"]: row["total"] for row in looks[-1]["data"]["rows"]} == {f"{n}": 250 for n in range(4)}
    summed = sum(row["sum_rate"] * look["data"]["seconds"] for look in looks for row in look["data"]["rows"])
    assert abs(summed - 4 * sum(range(250))) <= 0.02 * summed and max(row["max"] for row in rows) == 249


def test_functions_that_run_have_the_shares_that_the_program_measured(backend: str, place: Place) -> None:
    """Within three standard deviations."""
    path = place("shares")
    text = tracer("top", "--cpu", "--json", "-i", "200ms", "-q", "--backend", backend, "-c", str(path)).text
    much, little = next(map(int, line.split()) for line in text.splitlines() if re.fullmatch(r"\d+ \d+", line))
    rows = json.loads([line for line in text.splitlines() if line.startswith("{")][-1])["data"]["rows"]
    samples = {row["function"].split()[0]: row["samples"] for row in rows}
    assert {tuple(row["function"].split()[1:4:2]) for row in rows if row["function"].startswith("much ")} == {
        ("(shares)", "shares")
    }
    share, both = much / (much + little), samples["much"] + samples["little"]
    assert abs(samples["much"] - both * share) <= 3 * (both * share * (1 - share)) ** 0.5
    assert abs(both - 99 * (much + little) / 1e9) <= 0.2 * both


class Terminal:
    """A terminal of 12 lines with `tracer top` on it, and all that it wrote."""

    def __init__(self, *words: str) -> None:
        self._master, self.side = pty.openpty()
        self.resize(12, 60)
        self.before = termios.tcgetattr(self.side)
        self.written = b""
        threading.Thread(target=self._read, daemon=True).start()
        self.process = subprocess.Popen(
            [*TRACER, "top", *words], stdin=self.side, stdout=self.side, stderr=self.side,
            env=environment({"TERM": "xterm"}), start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def types(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def shows(self, pattern: bytes) -> bytes:
        """Waits until a frame matches."""
        ends = time.monotonic() + PATIENCE_S * PATIENCE
        while time.monotonic() < ends:
            frame = self.written.rpartition(b"\x1b[H")[2]
            if re.search(pattern, frame, re.S):
                return frame
            time.sleep(0.02)
        raise AssertionError((pattern, self.written[-2000:]))

    def _read(self) -> None:
        while True:
            try:
                self.written += os.read(self._master, 1 << 16)
            except OSError:
                return


@pytest.mark.parametrize("ends_by", ["q", "SIGTERM"])
def test_keys_change_the_table_and_the_terminal_is_as_it_was(ends_by: str, place: Place) -> None:
    path = place("hot")
    with subprocess.Popen([path, "60"], stdout=subprocess.DEVNULL) as hot:
        terminal = Terminal(f"{path}:spin*", "-i", "200ms", "-p", str(hot.pid))
        try:
            terminal.shows(rb"rate/s\*.* spin\x1b.* spin_mark\x1b.*q quit")
            assert termios.tcgetattr(terminal.side) != terminal.before
            terminal.types(b"s")
            terminal.shows(rb"total\*")
            terminal.types(b"/mark\n")
            assert b" spin\x1b" not in terminal.shows(rb" spin_mark\x1b.*/mark\x1b")
            terminal.types(b"f")
            terminal.shows(b"FROZEN")
            terminal.resize(5, 30)
            frame = terminal.shows(rb"\A[^\n]*(?:\n[^\n]*){4}\Z")
            assert max(len(line.partition(b"\x1b")[0]) for line in frame.split(b"\n")) <= 30
            if ends_by == "q":
                terminal.types(b"q")
            else:
                terminal.process.send_signal(signal.SIGTERM)
            assert terminal.process.wait(PATIENCE_S * PATIENCE) == 0
        finally:
            terminal.process.kill()
            hot.kill()
    assert termios.tcgetattr(terminal.side) == terminal.before
    assert terminal.written.count(b"\x1b[?1049h") == terminal.written.count(b"\x1b[?1049l") == 1
    assert b"\x1b" not in terminal.written.partition(b"\x1b[?1049l")[2]
