"""The line of a terminal that tells how a trace goes."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tracer.cli.tracing.status import StatusLine, status_line


@pytest.mark.parametrize(
    "hits, lost, seconds, ends_s, shown",
    [
        (1, 0, None, None, "attached at 1 place, 1 hit, 0 s, Ctrl-C ends, nothing lost"),
        (1200, 3, 30.2, None, "attached at 1 place, 1200 hits, 30 s left, 3 lost"),
        (-1, 0, 30.2, 20.3, "attached at 1 place, hits unknown, 20 s left, nothing lost"),
    ],
)
def test_it_says_hits_time_and_losses_until_something_else_is_written(
    hits: int, lost: int, seconds: float | None, ends_s: float | None, shown: str
) -> None:
    read, write = os.pipe()
    trace: Any = SimpleNamespace(ending=False, so_far=lambda: (hits, lost))
    line = StatusLine(write, ends_s)
    line.of(trace, seconds)
    line.look()  # nothing is attached yet
    line.attached(1)
    line.look()
    line.look()  # the same is not written twice
    line.erase()
    line.erase()
    line.look()
    line.end()
    trace.ending = True
    line.look()
    os.close(write)
    with os.fdopen(read, "rb") as written:
        assert written.read().decode() == f"\r\x1b[K{shown}\r\x1b[K\r\x1b[K{shown}\r\x1b[K"


def test_there_is_none_where_stderr_is_no_terminal() -> None:
    assert status_line(False) is None
