"""`tracer syscalls`: which system calls, how long, with which errors."""

from functools import partial

from tracer.cli.options import Asked
from tracer.cli.questions.asking import Counting, Results, question, run

EXAMPLE = "sudo tracer syscalls --follow -c 'make -j2'"

_SPAN = "span:tracepoint:raw_syscalls:sys_enter..tracepoint:raw_syscalls:sys_exit"


@question
def command(asked: Asked, counting: Counting, results: Results) -> int:
    """Show which system calls programs make: how often, with which errors, how long they take.

    --by comm or --by pid tells processes apart. --filter knows args.id, duration and after(args.ret).
    Calls that do not return are not counted; those under way at the end are told.
    """
    from tracer.cli.questions.kernel.syscalls_told import as_wanted
    from tracer.render.tables.syscalls import SyscallTable

    as_table = not (results.json or results.show)
    top = counting.top
    if as_table:
        counting.top = None  # each map has other greatest ones
    text = program(counting)
    table = partial(SyscallTable, top) if as_table else None
    return run(asked, results, text, ends_s=counting.ends_s, text_as=table, as_wanted=as_wanted)


def program(counting: Counting) -> str:
    """The program. Raises `ProgramError`, `UsageError`.

    exit() has no return. But where the first thread of a process has ended so, and another executes a program, that one
    returns with the number of the first.
    """
    from tracer.cli.questions.text import Words, clause_of
    from tracer.kinds.arch import AARCH64, native
    from tracer.render.tables.syscalls import ERRORS, QUANTILES, TIMES

    key, only = counting.words()
    before, after = counting.printed(ERRORS, TIMES, QUANTILES)
    name, ending = ("args.id, args.abi", "(args.abi == 1 ? 1 : 60)") if native() is not AARCH64 else ("args.id", "93")
    returned = f"args.id != {ending}"
    holds = Words(f"{returned} && ({only.text})" if only.text else returned)
    keys = ", ".join(filter(None, (key.text, f"syscall_name({name})")))
    body = (
        f"{TIMES}[{keys}] = sum(duration); {QUANTILES}[{keys}] = quantiles(duration, 50, 99);"
        f" $errno = -after(args.ret); if ($errno > 0 && $errno < 4096) {{ {ERRORS}[{keys}, $errno] = count(); }}"
    )
    return before + clause_of(_SPAN, holds, body) + after
