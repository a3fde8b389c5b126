"""`tracer count`: how often."""

from collections.abc import Sequence

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Counting, Probes, Results, given, question, run

EXAMPLE = "sudo tracer count 'libc:mem*' --by comm -i 1s -n 3 --top 5"


@question
def command(asked: Asked, counting: Counting, results: Results, probes: Probes = None) -> int:
    """Count how often functions and probes are hit.

    Where there may be several, each is counted by itself; --by counts by arguments, processes and so on.
    """
    return run(asked, results, program(given(probes, "count"), counting), ends_s=counting.ends_s)


def program(words: "Sequence[str]", counting: Counting) -> str:
    """The program. Raises `ProgramError`, `UsageError`."""
    from tracer.cli.questions.text import clause, key_of, probes_for, typed_result

    key, only = counting.words()
    probes = probes_for(words, key, only)
    before, after = counting.printed("@")
    what = key_of(probes, key)
    text = before + clause(probes, only, f"@{f'[{what}]' if what else ''} = count();") + after
    return typed_result(text, probes, key, only)
