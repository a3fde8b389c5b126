"""`tracer args`: the arguments of each call, by name and type, its result and its duration."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Filter, Probes, Results, Stack, given, question, run
from tracer.errors import UsageError

if TYPE_CHECKING:
    from tracer.cli.questions.records import Program

EXAMPLE = "sudo tracer args libc:malloc -c 'ls /' --filter 'arg0 > 4096'"
_REMEDY = "tracer trace PROBE 'FORMAT' arg0 … prints what has no names"
_INSTEAD = {"args": _REMEDY, "parameters": _REMEDY}


@question
def command(
    asked: Asked,
    results: Results,
    probes: Probes = None,
    where: Filter = None,
    stack: Stack = False,
) -> int:
    """Print each call of functions when it has ended: the time, the process, the arguments by name and type as they
    were when it began, the result and the duration in nanoseconds.

    The names are those of the debug information.
    """
    return run(asked, results, program(given(probes, "args"), where, stack), instead=_INSTEAD)


def program(words: "Sequence[str]", where: "str | None", stack: bool) -> "Program":
    """The program: a clause for each probe, since each has arguments of its own. Of a function whose calls cannot be
    told from each other it has the beginnings. Raises `ProgramError`, `UsageError`.
    """
    from tracer.cli.questions.records import Program, Record, named
    from tracer.cli.questions.text import Words, condition, probe

    only = condition(where, "--filter") if where is not None else Words()
    clauses = []
    for word in words:
        asked = probe(word)
        if not asked.is_function:
            what = "a span" if asked.is_span else "a USDT probe"
            raise UsageError(f"{word}: the arguments of {what} have no names", f"tracer trace {word} %d arg0")
        kinds = ("call", "uprobe") if asked.is_called else ("uprobe",)
        clauses.append(Record([choice for kind in kinds for choice in named(asked.as_kind(kind), stack)], only))
    return Program(clauses)
