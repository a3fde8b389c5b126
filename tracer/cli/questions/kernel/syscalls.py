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

    A call that returns has its number still, but from a handler of a signal, which leaves -1. Where a thread that is
    not the first executes a program, it returns with the number of the first one, whose own call is over: so the
    number is that of the return, and the time, which is of another call, is left out.
    """
    from tracer.cli.questions.text import clause_of
    from tracer.render.tables.syscalls import ERRORS, QUANTILES, TIMES

    key, only = counting.words()
    before, after = counting.printed(ERRORS, TIMES, QUANTILES)
    keys = ", ".join(filter(None, (key.text, "syscall_name($id)")))
    body = (
        "$id = after(args.id) == -1 ? args.id : after(args.id); $ns = $id == args.id ? duration : 0; "
        f"{TIMES}[{keys}] = sum($ns); {QUANTILES}[{keys}] = quantiles($ns, 50, 99); $errno = -after(args.ret); "
        f"if ($errno > 0 && $errno < 4096) {{ {ERRORS}[{keys}, $errno] = count(); }}"
    )
    return before + clause_of(_SPAN, only, body) + after
