"""What looks after breakpoints runs beside the process that removes them, and copies nothing of it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from tracer.kernel.workers import removal
from tracer.kernel.workers.removal import Removal


def _spot(path: Path) -> tuple[object, ...]:
    status = path.stat()
    return str(path), status.st_dev, status.st_ino, 0x1000, 0, 0x1000


def test_looking_for_what_stayed_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    forks = []

    def fork() -> int:
        forks.append("one")
        raise OSError

    monkeypatch.setattr(os, "fork", fork)
    found = Removal([_spot(Path(sys.executable).resolve())], [os.getpid()]).check()
    assert (found, forks) == ([], [])


def test_what_takes_too_long_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_PATIENCE_S", 0.05)
    ended = threading.Event()
    begun = time.monotonic()
    assert removal._beside(lambda: ended.wait(20)) is None
    assert time.monotonic() - begun < 10
    ended.set()


def test_what_fails_found_nothing() -> None:
    assert removal._beside(lambda: 1 // 0) is None
    assert removal._beside(lambda: [7]) == [7]
