"""What is done beside a trace is given up where something is wanting; the trace goes on."""

from __future__ import annotations

import errno
import os

import pytest

from tracer.silence.beside import Beside


class Looking:
    task = "looking"

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.calls = 0

    def look(self) -> None:
        self.calls += 1
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/x"), "no more looking: open of /x: Too many open files"),
        (ImportError("no module"), "no more looking: no module"),
        (MemoryError(), "no more looking: there is not enough memory"),
    ],
)
def test_what_cannot_be_done_is_said_once_and_not_tried_again(error: Exception, said: str) -> None:
    lines: list[str] = []
    beside, failing, other = Beside(lambda notice: lines.append(str(notice))), Looking(error), Looking()
    other.task = "another"
    for _ in range(2):
        assert beside(failing.look, otherwise=3) == 3
        assert beside(other.look, otherwise=3) is None
    assert (lines, failing.calls, other.calls) == ([said], 1, 2)


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("a fault of ours")])
def test_other_errors_are_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error)):
        Beside(lambda notice: None)(Looking(error).look)
