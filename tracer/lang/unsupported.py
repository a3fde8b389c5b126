"""The names that bpftrace has and tracer leaves out, each with the reason, so that no error is a bare 'unknown'.

Values are (reason, remedy); the message is `NAME is not supported: REASON`.
"""

from __future__ import annotations

_words = str.split

_KERNEL = "of the kernel tracer traces events and samples, no functions"
_OTHER_PROBES = (
    "attach to a tracepoint (tracepoint:SYSTEM:NAME), to a function of a program (uprobe:FILE:FUNCTION) or to a USDT"
    " probe (usdt:FILE:PROVIDER:NAME)"
)

EVENT = "EVENT"
"""Stands in a remedy for the name of what was asked for."""

PROBES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        _words(
            "kprobe k kretprobe kr kfunc kretfunc fentry f fexit fr iter it"
        ),
        (_KERNEL, _OTHER_PROBES),
    ),
    **dict.fromkeys(
        ("rawtracepoint", "rt"),
        ("tracer reads an event's fields and not its arguments", f"tracepoint:SYSTEM:{EVENT} is at the same place"),
    ),
    **dict.fromkeys(
        ("asyncwatchpoint", "aw"),
        (
            "it watches where an argument leads, known only at the call; bpftrace 0.27 has it no more either",
            'watchpoint:ADDRESS:LENGTH:w watches an address, which printf("%p", arg0) shows at the function',
        ),
    ),
}
"""Probe types, long and short names."""

SHORT_PROBES = {
    "k": "kprobe",
    "kr": "kretprobe",
    "f": "fentry",
    "fr": "fexit",
    "rt": "rawtracepoint",
    "aw": "asyncwatchpoint",
    "it": "iter",
}

FUNCTIONS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("percpu_kaddr", "kfunc_allowed", "kfunc_exist"), (_KERNEL, None)),
    **dict.fromkeys(("path", "skboutput", "socket_cookie", "override"), (_KERNEL, None)),
    "unwatch": ("watchpoints last to the end; bpftrace 0.27 has it no more either", "a predicate leaves hits out"),
    "write_user": ("tracer writes nothing into what is traced", None),
    **dict.fromkeys(("elf_is_exe", "elf_info"), ("it is bpftrace's own, for uaddr()", "uaddr() is there")),
}
"""Functions."""

BUILTINS: dict[str, tuple[str, str | None]] = {
    "ctx": (_KERNEL, None),
}
"""Built-in values."""

STATEMENTS: dict[str, tuple[str, str | None]] = {
    "subprog": ("it was the name of fn", "write fn name($a: int64): int64 { … }"),
}
"""Words that start a definition or a statement."""


def phrase(what: str, entry: tuple[str, str | None]) -> tuple[str, str | None]:
    """Message and hint for something left out; `what` is how it is written."""
    reason, remedy = entry
    return f"{what} is not supported: {reason}", remedy
