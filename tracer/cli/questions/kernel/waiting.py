"""`tracer stacks --off-cpu` and `--wakeup`: where threads wait and for how long, and who wakes them."""

from collections.abc import Sequence

from tracer.cli.questions.asking import Counting
from tracer.cli.questions.text import UNPRINTED, Words

_ENDED = 0x30
"""EXIT_DEAD and EXIT_ZOMBIE of `prev_state`: such a thread does not come back (include/linux/sched.h)."""
_ASLEEP = 0x3
"""TASK_INTERRUPTIBLE and TASK_UNINTERRUPTIBLE: it waits to be woken, and was not merely put off."""
_LEAVES = "args.prev_pid && traced(args.prev_pid)"
"""The thread with number 0 is the idle one of a CPU."""


def off_cpu(stacks: Sequence[str], counting: Counting) -> str:
    """The program of `--off-cpu`. Raises `ProgramError`, `UsageError`."""
    key, only = counting.words()
    parts = ["nsecs", *([key.text] if key.text else []), *stacks]
    places = range(1, 1 + len(key.values) + len(stacks))
    gone, still = "@left[args.next_pid]", "$thread.1"
    back, open_one = (", ".join([f"{kept}.{place}" for place in places]) for kept in (gone, still))
    before, after = _printed(counting)
    return (
        f"{before}tracepoint:sched:sched_switch {{"
        f" if ({_LEAVES} && (args.prev_state & {_ENDED:#x}) == 0{_and(only)})"
        f" {{ @left[args.prev_pid] = ({', '.join(parts)}); }}"
        " if (has_key(@left, args.next_pid))"
        f" {{ @[{back}] = sum(nsecs - {gone}.0); delete(@left, args.next_pid); }} }}\n"
        f"END {{ for ($thread : @left) {{ @[{open_one}] = sum(nsecs - {still}.0); }} }}\n{after}"
    )


def wakeup(stacks: Sequence[str], counting: Counting) -> str:
    """The program of `--wakeup`. Raises `ProgramError`, `UsageError`."""
    key, only = counting.words()
    parts = [key.text or "args.comm, comm", *stacks]
    before, after = _printed(counting)
    return (
        f"{before}tracepoint:sched:sched_switch /{_LEAVES} && args.prev_state & {_ASLEEP:#x}/"
        " { @since[args.prev_pid] = nsecs; }\n"
        f"tracepoint:sched:sched_waking /@since[args.pid]{_and(only)}/"
        f" {{ @[{', '.join(parts)}] = sum(nsecs - @since[args.pid]); delete(@since, args.pid); }}\n{after}"
    )


def _and(only: Words) -> str:
    return f" && ({only.text})" if only.text else ""


def _printed(counting: Counting) -> tuple[str, str]:
    """What stands before the program and behind it: of the maps one alone is an answer."""
    before, after = counting.printed("@")
    return (before, after) if before else (UNPRINTED, "END { print(@); }\n")
