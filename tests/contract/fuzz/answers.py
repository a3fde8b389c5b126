"""How programs end on each leg: the tree walk, the steps as Python, and both backends on the real target."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.contract.depot import ROUNDS
from tests.contract.fuzz.programs import located
from tests.contract.replay import Make, compiled, replay, walked
from tests.harness.cli import tracer
from tests.targets.build import build


@dataclass(frozen=True)
class Answer:
    """How a program ended on one leg: its output, its exit status, what it lost, and what else it said."""

    out: bytes
    status: int
    lost: tuple[tuple[str, int], ...]
    said: str = ""


_LOSSES = {
    "unreadable": re.compile(r"^tracer: (\d+) hits? left out: an argument or string could not be read there.*\n", re.M),
    "truncated": re.compile(r"^tracer: (\d+) strings? cut to .*\n", re.M),
    "loops": re.compile(r"^tracer: (\d+) loops? stopped at the limit .*\n", re.M),
    "divisions": re.compile(r"^tracer: (\d+) divisions? by zero: .*\n", re.M),
}

_WAITS = re.compile(r"^tracer: the kernel (?:is still removing|removes|attaches) (?:the )?probes.*\n", re.M)
"""What the kernel waited for is another's probe."""


def replayed(text: str, make: Make) -> Answer:
    """The answer of the steps as Python, or of the reference, to the hits by arithmetic."""
    answer = replay(located(text), "text", ROUNDS, make)
    loss = answer.outcome.loss
    found = {name: getattr(loss, name) for name in _LOSSES}
    rest = "".join(f"{name} {getattr(loss, name)}" for name in ("events", "keys", "stacks") if getattr(loss, name))
    return Answer(answer.out, answer.outcome.code, tuple(found.items()), rest)


def traced(text: str, backend: str) -> Answer:
    """The answer of a backend, through the command line."""
    # The verifier takes its time before it gives up on a program: 25 s at rest, minutes on a busy machine.
    words = ("run", "--backend", backend, "-e", located(text), "-c", f"{build('depot')} {ROUNDS}")
    done = tracer(*words, timeout=300)
    err, found = _WAITS.sub("", done.err), {}
    for name, pattern in _LOSSES.items():
        match = pattern.search(err)
        found[name] = int(match[1]) if match else 0
        err = pattern.sub("", err)
    # Warnings come before the line that counts the probes, complaints after it; a refusal has no such line.
    before, attached, rest = re.split(r"(?m)^(Attached \d+ probes?\n)", err) if "Attached" in err else (err, "", "")
    if not attached:
        rest = "".join(line for line in before.splitlines(True) if "error: " in line) or before[-2000:]
    return Answer(done.printed, done.status, tuple(found.items()), rest)


def answers(text: str, legs: Sequence[str]) -> dict[str, Answer]:
    """The answers of some of `reference`, `python`, `bcc` and `ftrace`.

    Raises `ProgramError` for an invalid program.
    """
    replays: dict[str, Make] = {"reference": walked, "python": compiled}
    return {leg: replayed(text, replays[leg]) if leg in replays else traced(text, leg) for leg in legs}


TOO_MUCH = "this clause is too much for bcc: "
"""What bcc says of a clause that is too large for BPF: an answer too."""
