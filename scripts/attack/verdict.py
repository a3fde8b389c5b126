"""Judges what must hold after a run under attack, whatever was done to it, as far as its end and its words tell."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass, field


@dataclass
class Seen:
    """The outcome of a run; `wrongs` are the kinds of faults found, each with its words."""

    status: int | None = None
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    began: bool = True
    wrongs: list[tuple[str, str]] = field(default_factory=list)
    hit: dict[str, object] | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def wrong(self, kind: str, words: object = "") -> None:
        """Notes a fault."""
        self.wrongs.append((kind, str(words)))


WORDLESS = ("no word of an error", "a wrong answer without a word")
"""The faults that are none where the words could not be written."""

_BAD = {
    "a traceback": re.compile(r"Traceback \(most recent|Exception ignored|Fatal Python error|^\s+File \"", re.M),
    "an internal error": re.compile(r"internal error"),
    "a bare exception": re.compile(r"^\w*(?:Error|Exception)\b", re.M),
}
_KILLED = re.compile(r"\bwas killed\b")
_USUAL = re.compile(r"^Attached \d+ probes?$\n?", re.M)

_OF_PYTHON = re.compile(
    r"^Exception ignored (?:when trying to write to the signal wakeup fd:|in sys\.unraisablehook: .*\nMemoryError)$\n?",
    re.M,
)
"""What no hook can stop: of a write to a pipe that no kernel refuses so, and where there is no memory for the hook."""


def judge(seen: Seen, expected: str | None, error: int | None = None, kills: bool = False) -> None:
    """Looks at what tracer said. `expected` is what it prints undisturbed, None where any answer can be right; `error`
    the number of what was injected; `kills`: processes are killed, so one may end so, and may say so of another.
    """
    if not seen.began:
        return  # Python itself could not start; it says so in its own words
    said = _OF_PYTHON.sub("", _USUAL.sub("", seen.err)).strip()
    for kind, pattern in _BAD.items():
        if pattern.search(said):
            seen.wrong(kind, said[:600])
    if not kills and _KILLED.search(said):
        seen.wrong("a false cause", said[:600])
    if any(kind == "no end" for kind, _ in seen.wrongs):
        return
    if seen.status is not None and seen.status < 0:
        if not (kills and seen.status == -signal.SIGKILL):
            seen.wrong("ended by a signal", f"{signal.Signals(-seen.status).name}: {said[:300]}")
    elif seen.status and not said:
        seen.wrong(WORDLESS[0], f"status {seen.status}")
    elif seen.status == 0 and not said and expected is not None and seen.out != expected:
        seen.wrong(WORDLESS[1], seen.out[:300])
    if error is not None:
        text = re.escape(os.strerror(error))
        if re.search(rf"^(?:tracer: |\W*error: )+(?:\[Errno \d+\] )?{text}\.?$", said, re.M):
            seen.wrong("an error that names nothing", said[:300])
