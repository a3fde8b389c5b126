"""The cost of a hit of a kernel's event to the program that causes it: ns of CPU time, with its system call."""

from __future__ import annotations

from functools import partial

from scripts.benchmark.answers import buckets, entries
from scripts.benchmark.children import run
from scripts.benchmark.model import Reading, Row, Work
from scripts.benchmark.setting import Setting, by_all, ended_well, floor, spent, traced
from scripts.benchmark.speakers import Speaker

_EVENT = "tracepoint:raw_syscalls:sys_enter"
_BODIES = {"kernel-count": "@ = count()", "kernel-hist": "@ = hist(args.id)"}


def kernel(setting: Setting) -> list[Work]:
    """The floor, and a count and a histogram of system calls."""
    return [
        floor("kernel", Row("kernel-untraced", "a system call: not traced", "ns"), partial(_untraced, setting)),
        *(
            by_all(setting, "kernel", [Row(key, f"a system call: {body}", "ns")], partial(_ask, setting, key))
            for key, body in _BODIES.items()
        ),
    ]


def all_there(key: str, out: bytes, hits: int) -> tuple[str, ...]:
    """The faults in the answer, which has the target's hits, and what else it and (at bpftrace) others called."""
    counted = entries(out).get("", 0) if key == "kernel-count" else sum(buckets(out))
    return () if counted >= hits else (f"counts {counted:,} of {hits:,}",)


def _ask(setting: Setting, key: str, one: Speaker) -> Reading:
    command = setting.subjects.command("kt", setting.hits)
    ran = traced(setting, one, f"{_EVENT} {{ {_BODIES[key]}; }}", command)
    cost = spent(setting)
    return Reading({key: cost.ns}, all_there(key, ran.out, cost.hits))


def _untraced(setting: Setting) -> float:
    setting.subjects.forget()
    ended_well(run(setting.subjects.command("kt", setting.hits), setting.timeout_s))
    return spent(setting).ns
