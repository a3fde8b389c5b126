"""The built-in values and functions, one row each: calls are checked against it, the reference is made from it."""

from __future__ import annotations

from typing import Final, Literal

from tracer.dataclass import dataclass
from tracer.lang.types import BOOL, BoolType, IntType

Place = Literal["anywhere", "probe", "return", "user"]
"""Where a row may be used: everywhere; in usdt, uprobe and uretprobe clauses; in uretprobe clauses; in BEGIN, END and
interval."""

FunctionKind = Literal["aggregation", "statement", "value"]


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A built-in value such as `pid`: `type` as the reference names it."""

    name: str
    type: str
    help: str
    place: Place = "anywhere"


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function: how it is called, how many arguments it takes, what it gives.

    `least` and `most` count arguments, -1 is "any number". An "aggregation" is only assigned to a map; a "statement"
    stands alone; a "value" is an expression.
    """

    name: str
    kind: FunctionKind
    call: str
    least: int
    most: int
    type: str
    help: str
    place: Place = "anywhere"


VALUES: Final[dict[str, ValueRow]] = {
    row.name: row
    for row in (
        ValueRow("pid", "uint64", "process ID of the program that hit the probe"),
        ValueRow("tid", "uint64", "thread ID of the thread that hit the probe"),
        ValueRow("uid", "uint64", "user ID of that process"),
        ValueRow("gid", "uint64", "group ID of that process"),
        ValueRow("username", "username", "name of the user with that uid"),
        ValueRow("comm", "string[16]", "name of the thread that hit the probe"),
        ValueRow("cpu", "uint64", "number of the CPU it ran on"),
        ValueRow("nsecs", "uint64", "nanoseconds since boot"),
        ValueRow("elapsed", "uint64", "nanoseconds since tracing began"),
        ValueRow("cpid", "uint64", "process ID of the program started with -c, else 0"),
        ValueRow("probe", "string", "full name of the probe that was hit"),
        ValueRow("func", "string", "name of the function that holds the probe", "probe"),
        ValueRow("ustack", "ustack", "user stack at the probe, innermost frame first", "probe"),
        ValueRow("retval", "uint64", "value that the function returns", "return"),
    )
}
"""Built-in values but `arg0`, `arg1`, …, which are counted by the site."""

FUNCTIONS: Final[dict[str, FunctionRow]] = {
    row.name: row
    for row in (
        FunctionRow("count", "aggregation", "count()", 0, 0, "int64", "counts how often it is called"),
        FunctionRow("sum", "aggregation", "sum(n)", 1, 1, "type of n", "adds up n"),
        FunctionRow("avg", "aggregation", "avg(n)", 1, 1, "type of n", "average of n"),
        FunctionRow("min", "aggregation", "min(n)", 1, 1, "type of n", "smallest n"),
        FunctionRow("max", "aggregation", "max(n)", 1, 1, "type of n", "largest n"),
        FunctionRow("stats", "aggregation", "stats(n)", 1, 1, "type of n", "count, average and total of n"),
        FunctionRow("hist", "aggregation", "hist(n[, bits])", 1, 2, "histogram", "histogram of n by powers of two"),
        FunctionRow(
            "lhist", "aggregation", "lhist(n, low, high, step)", 4, 4, "histogram", "histogram of n in equal steps"
        ),
        FunctionRow("printf", "statement", "printf(format, …)", 1, -1, "none", "prints values as C's printf does"),
        FunctionRow(
            "print", "statement", "print(value) or print(@map[, top[, div]])", 1, 3, "none", "prints a value or a map"
        ),
        FunctionRow("clear", "statement", "clear(@map)", 1, 1, "none", "removes all keys of a map"),
        FunctionRow("zero", "statement", "zero(@map)", 1, 1, "none", "sets all values of a map to 0"),
        FunctionRow("delete", "statement", "delete(@map, key)", 1, 2, "none", "removes one key of a map"),
        FunctionRow("exit", "statement", "exit([code])", 0, 1, "none", "ends tracing with an exit status"),
        FunctionRow("time", "statement", "time([format])", 0, 1, "none", "prints the wall clock through strftime(3)"),
        FunctionRow("str", "value", "str(addr[, size])", 1, 2, "string", "string at an address of the traced program"),
        FunctionRow(
            "strftime", "value", "strftime(format, ns)", 2, 2, "timestamp", "nanoseconds since boot as a date and time"
        ),
        FunctionRow("strncmp", "value", "strncmp(a, b, n)", 3, 3, "uint64", "0 if the first n bytes are equal, else 1"),
        FunctionRow("strlen", "value", "strlen(s)", 1, 1, "uint64", "length of a string in bytes"),
        FunctionRow("strcontains", "value", "strcontains(s, part)", 2, 2, "bool", "whether a string holds another"),
        FunctionRow("len", "value", "len(@map)", 1, 1, "int64", "number of keys of a map"),
        FunctionRow("has_key", "value", "has_key(@map, key)", 2, 2, "bool", "whether a map holds a key"),
        FunctionRow(
            "ustack", "value", "ustack([frames])", 0, 2, "ustack", "user stack, so many frames at most", "probe"
        ),
        FunctionRow("usym", "value", "usym(addr)", 1, 1, "usym", "symbol that holds an address", "probe"),
    )
}
"""All functions."""

INTEGER_TYPES: Final[dict[str, IntType | BoolType]] = {
    "bool": BOOL,
    **{
        f"{'' if signed else 'u'}int{bits}{suffix}": IntType(bits, signed)
        for suffix in ("", "_t")
        for bits in (8, 16, 32, 64)
        for signed in (True, False)
    },
    "char": IntType(8, True),
    "short": IntType(16, True),
    "int": IntType(32, True),
    "long": IntType(64, True),
    "unsigned int": IntType(32, False),
    "unsigned long": IntType(64, False),
    "size_t": IntType(64, False),
    "uintptr_t": IntType(64, False),
}
"""Types of casts, with C's names for them."""

STACK_FRAMES_MOST = 127
"""The kernel's default `kernel.perf_event_max_stack`."""

LHIST_BUCKETS_MOST = 1000
HIST_BITS_MOST = 5
UNROLL_MOST = 100
