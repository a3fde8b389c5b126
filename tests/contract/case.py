"""One line of the contract: a program, and the answer that every backend must give to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.contract.depot import ROUNDS
from tests.contract.expect import NOTHING, Out


@dataclass(frozen=True)
class Case:
    """A one-liner and what it answers.

    `program`: `T` between colons stands for the path of the target, `{name}` for the address of that function in it.
    `out` is what goes to stdout, the line that says how many probes are attached aside: JSON has it, with `probes`.
    `target` is None for programs without a target (`-c` is then left out). `refused` gives, for a backend that does
    not run the case, what `check` says about it (an entry of `refusals.REFUSALS`). `unreadable`, `truncated`, `loops`
    and `divisions` are the losses of the run, `max_strlen` is what the program sets. `cold` is what bcc answers where
    BPF programs cannot wait for a page that is not in memory (`tracer info`: bpf sleepable, Linux 6.0): one hit is left
    out and counted as unreadable. None where no such page is read. `replayed`: the arithmetic of the target
    makes all that it asks for, which the stack pointer that calls are told apart by is not.
    """

    name: str
    program: str
    out: Out = NOTHING
    probes: int = 1
    target: str | None = "depot"
    rounds: int = ROUNDS
    status: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    unreadable: int = 0
    truncated: int = 0
    loops: int = 0
    divisions: int = 0
    max_strlen: int = 1024
    cold: Out | None = None
    replayed: bool = True

    def __str__(self) -> str:
        return self.name

    def attached(self) -> bytes:
        """The first line of JSON."""
        return b'{"type": "attached_probes", "count": %d, "data": {"probes": %d}}\n' % (self.probes, self.probes)


def by_hand(text: str, *json: str) -> Out:
    """Output that is spelled out: the text, and the lines of JSON."""
    return Out(text.encode(), tuple(line.encode() + b"\n" for line in json))


def said(name: str, program: str, text: str, probes: int = 1) -> Case:
    """A case without a target whose BEGIN prints lines, each by one printf that ends in a newline."""
    from tests.contract.expect import printf, together

    lines = [line + "\n" for line in text.split("\n")]
    return Case(name, program, together(map(printf, lines)), probes, target=None)
