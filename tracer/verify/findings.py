"""Counts what was compared of a file, what differs, and what could not be compared for which reason."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from tracer.dataclass import NamedTuple
from tracer.errors import TracerError, printable
from tracer.resolve.dwarf.units.debug_entries import NONSENSE
from tracer.verify.known import reason_of

_T = TypeVar("_T")

MOST_SHOWN = 1000
"""Differences of one part that are shown; the others are counted."""
_LONGEST = 200
"""Characters of a value in a line."""


class OutOfTime(Exception):
    """A part has used up its time."""


class Part(NamedTuple):
    """The result of one part of a file: how many were compared, and `differences` as lines; `more` of these are only
    counted. `reasons` counts those of `known.REASONS` by their names; `raised` is the first that pyelftools raised
    without a known reason, "" for nothing. `cut`: why not all was compared, "" where all was.
    """

    name: str
    compared: int
    differences: tuple[str, ...]
    more: int
    reasons: tuple[tuple[str, int], ...]
    raised: str
    cut: str


class Findings:
    """The part of a file that is being compared, until a moment of the monotonic clock."""

    def __init__(self, name: str, until: float) -> None:
        self._name = name
        self._until = until
        self._compared = self._more = 0
        self._lines: list[str] = []
        self._reasons: Counter[str] = Counter()
        self._raised = ""

    def part(self, cut: str = "") -> Part:
        """The result of the part, so far."""
        reasons = tuple(self._reasons.most_common())
        return Part(self._name, self._compared, tuple(self._lines), self._more, reasons, self._raised, cut)

    def look_at_the_clock(self) -> None:
        """Raises `OutOfTime` when the part's time is over."""
        if time.monotonic() > self._until:
            raise OutOfTime

    def same(self, what: str, ours: object, theirs: object, reason: str = "", counts: bool = True) -> None:
        """Compares one thing. A difference counts by the name of its reason, where `reason` gives one. What no user
        would count, as the number of things, has `counts` False.
        """
        self._compared += counts
        if ours == theirs:
            self.look_at_the_clock()
            return
        if reason:
            self.count_reason(reason)
        elif len(self._lines) < MOST_SHOWN:
            self._lines.append(f"{self._name}: {printable(what)}: ours {_text(ours)}, pyelftools {_text(theirs)}")
        else:
            self._more += 1

    def count_reason(self, reason: str, times: int = 1) -> None:
        """Counts what was not compared, or differs, for a reason that is known."""
        self._reasons[reason] += times

    def theirs(self, ask: Callable[..., _T], *given: object) -> _T | None:
        """The answer of pyelftools; None where it raises, which is counted."""
        self.look_at_the_clock()
        try:
            return ask(*given)
        except Exception as error:
            reason = reason_of(error)
            self.count_reason(reason)
            if reason == "raised" and not self._raised:
                self._raised = printable(f"{type(error).__name__}: {error}"[:_LONGEST])
            return None

    def ours(self, ask: Callable[..., _T], *given: object) -> _T | str:
        """The answer of our reader, or what it refuses with: so that a refusal differs from what pyelftools reads."""
        try:
            return ask(*given)
        except TracerError as error:
            return f"error: {error.message}"
        except NONSENSE as error:
            return f"error: {type(error).__name__}: {error}"


def _text(value: object) -> str:
    text = printable(value if isinstance(value, str) else repr(value))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
