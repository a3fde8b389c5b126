"""`tracer args`: the arguments of each call, by name and type."""

from collections.abc import Sequence

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Filter, Probes, Results, Stack, given, question, run
from tracer.errors import UsageError

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
    """Print the arguments of each call by name and type, with the time and the process.

    The names are those of the debug information.
    """
    return run(asked, results, program(given(probes, "args"), where, stack), instead=_INSTEAD)


def program(words: "Sequence[str]", where: "str | None", stack: bool) -> str:
    """The program: a clause for each probe, since each has arguments of its own. Raises `ProgramError`,
    `UsageError`.
    """
    from tracer.cli.questions.text import Words, clause, condition, probe

    only = condition(where, "--filter") if where is not None else Words()
    clauses = []
    for word in words:
        asked = probe(word)
        if not asked.is_function:
            raise UsageError(f"{word}: the arguments of a USDT probe have no names", f"tracer trace {word} %d arg0")
        line = 'print((strftime("%H:%M:%S", nsecs), pid, comm, func, args));'
        clauses.append(clause([asked], only, f"{line}{' print(ustack);' if stack else ''}"))
    return "".join(clauses)
