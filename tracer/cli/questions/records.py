"""Records of hits with as much of each as the traced files let be known.

What is known, the checker says: of the texts that come into question for a clause the first is taken that it finds no
fault in.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tracer.cli.questions.text import Probe, Words, clause
from tracer.errors import Diagnostic, ProgramError
from tracer.kinds.registry import SPELLINGS
from tracer.lang.check.bare import MOST, numbered, records

_Result = TypeVar("_Result")
Choice = tuple[Probe, str]
"""A probe, and what is done at its hits."""


def named(probe: Probe, stack: bool) -> list[Choice]:
    """The records of a probe that have its arguments by name, the best first; with a `stack` that too."""
    return [(probe, body) for body in _bodies(probe, ["args=args"], stack) if "args=args" in body]


def any_of(probe: Probe, stack: bool) -> list[Choice]:
    """The records of a probe, the best first; the last says nothing of arguments and results."""
    return [(probe, body) for body in _bodies(probe, ["args=args", numbered(MOST)], stack)]


def _bodies(probe: Probe, arguments: Sequence[str], stack: bool) -> list[str]:
    kind = SPELLINGS[probe.kind]
    last = ", stack=ustack" if stack else ""  # in the record: of two events another thread's may come between
    return [f"print(({fields}{last}));" for fields in records(arguments, kind.ends, kind.pairs)]


class Record:
    """A clause that prints a record of each hit. `choices`: probes with what prints their records, the best first.
    `reason`: why the first probe is not that of the clause, where it is not.
    """

    def __init__(self, choices: Sequence[Choice], where: Words) -> None:
        self._choices = list(choices)
        self._where = where
        self.first = choices[0][0]
        self.reason = ""

    @property
    def probe(self) -> Probe:
        """Where the hits are, as far as that is settled."""
        return self._choices[0][0]

    @property
    def text(self) -> str:
        """The clause, a line."""
        return clause([self.probe], self._where, self._body)

    @property
    def _body(self) -> str:
        return self._choices[0][1]

    def give_way(self, diagnostic: Diagnostic, start: int) -> bool:
        """Takes the next choice that may lack what is wrong with this one, where the clause begins at `start`; False
        where there is none, or the fault is in the user's predicate.
        """
        place, head = diagnostic.span.start - start, len(self.probe.text)
        if head <= place < self.text.rindex(self._body):
            return False
        refused = self.probe if place < head else None
        rest = [choice for choice in self._choices[1:] if choice[0] != refused]
        if not rest:
            return False
        if rest[0][0] != self.probe:
            self.reason = diagnostic.message
        self._choices = rest
        return True


class Program:
    """A program of such clauses."""

    def __init__(self, clauses: Sequence[Record]) -> None:
        self._clauses = clauses

    @property
    def text(self) -> str:
        """The program."""
        return "".join(record.text for record in self._clauses)

    def settle(self, attempt: Callable[[str], _Result]) -> _Result:
        """What `attempt` makes of the first text that it raises no `ProgramError` for; raises that of the first text
        where there is none.
        """
        first: ProgramError | None = None
        while True:
            try:
                return attempt(self.text)
            except ProgramError as error:
                first = first or error
                if error.awaits_files or not self._give_way(error):
                    raise first from None

    def _give_way(self, error: ProgramError) -> bool:
        faults = [diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"]
        start, gave_way = 0, False
        for record in self._clauses:
            end = start + len(record.text)
            for diagnostic in faults:
                if start <= diagnostic.span.start < end:
                    if not record.give_way(diagnostic, start):
                        return False
                    gave_way = True
                    break
            start = end
        return gave_way

    def lacking(self) -> list[str]:
        """What records of which functions lack, and why: a sentence for each."""
        return [
            f"{record.probe.text} is traced where it begins, without result and duration: {record.reason}"
            for record in self._clauses
            if record.probe != record.first
        ]
