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

    exit() and exit_group() have no return. But the number of a thread that has ended so may get another thread, whose
    return from clone() has no start of its own: a return is of the call whose number it bears. That of sigreturn()
    bears none, -1, and that of an execve() which starts a program of another width the number that it has there.
    """
    from tracer.cli.questions.text import Words, clause_of
    from tracer.kinds.arch import AARCH64, native
    from tracer.render.tables.syscalls import ERRORS, QUANTILES, TIMES

    key, only = counting.words()
    before, after = counting.printed(ERRORS, TIMES, QUANTILES)
    name, other = ("args.id", "") if native() is AARCH64 else ("args.id, args.abi", " || after(args.abi) != args.abi")
    returned = f"(after(args.id) == args.id || after(args.id) == -1{other})"
    holds = Words(f"{returned} && ({only.text})" if only.text else returned)
    keys = ", ".join(filter(None, (key.text, f"syscall_name({name})")))
    body = (
        f"{TIMES}[{keys}] = sum(duration); {QUANTILES}[{keys}] = quantiles(duration, 50, 99);"
        f" $errno = -after(args.ret); if ($errno > 0 && $errno < 4096) {{ {ERRORS}[{keys}, $errno] = count(); }}"
    )
    return before + clause_of(_SPAN, holds, body) + after
