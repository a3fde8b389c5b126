"""Names, variables and fetch arguments of other tools: SystemTap's, DTrace's, gdb's, BCC's and uprobe_events'.

A word that bpftrace's language has means what it means there: nobody looks here before a word has turned out unknown.
"""

from __future__ import annotations

import re

_words = str.split

_COUNTED = "arguments are counted from 0: the first is arg0"
_COMMAND = "-p PID or -c COMMAND traces that process alone; the number of the command is cpid"
_DATE = 'nsecs counts from the boot on; strftime("%H:%M:%S", nsecs) is the time of day'
_KERNEL_STACK = "tracer traces user programs only; ustack is the program's own stack"
_SEPARATE = "the thread's own value is @x[tid], and delete(@x, tid) ends it; a clause's own value is $x"

_NAMES: dict[str, str] = {
    # the probe
    **dict.fromkeys(_words("probefunc ppfunc"), "func is the function, probe the whole attach point"),
    **dict.fromkeys(
        _words("pp pn probename probeprov probemod id"), "probe is the whole attach point, func the function"
    ),
    # the process
    "execname": "comm is the thread's name",
    "pexecname": "pcomm is the parent's name",
    "curcpu": "cpu is the CPU's number",
    "target": _COMMAND,
    "euid": "uid is the user's number",
    # times
    **dict.fromkeys(_words("timestamp get_cycles gettimeofday_ns"), "nsecs counts nanoseconds"),
    "gettimeofday_us": "write nsecs / 1000",
    "gettimeofday_ms": "write nsecs / 1000000",
    "gettimeofday_s": "write nsecs / 1000000000",
    **dict.fromkeys(_words("walltimestamp ctime tz_ctime"), _DATE),
    "vtimestamp": "time on the CPU is not known; nsecs counts all",
    **dict.fromkeys(
        _words("thread_indent indent"),
        "count the depth: @depth[tid]++ where a call begins, @depth[tid]-- where it ends",
    ),
    # memory and registers
    **dict.fromkeys(_words("user_string user_string_quoted user_string_warn copyinstr text_str"), "write str(pointer)"),
    **dict.fromkeys(_words("user_string_n user_string_n_quoted"), "write str(pointer, n + 1)"),
    **dict.fromkeys(_words("copyin copyinto tracemem"), "buf(pointer, n) holds n bytes, *(int32 *)pointer a number"),
    **dict.fromkeys(_words("kernel_string kernel_int kernel_long"), "tracer traces user programs only: str(pointer)"),
    **dict.fromkeys(_words("register u_register uregs"), 'reg("di") is a register'),
    **dict.fromkeys(_words("returnval ERR_MAG"), "retval is the result, in a uretprobe"),
    **{
        f"{type}_arg": _COUNTED
        for type in _words("int uint long ulong longlong ulonglong pointer s32 u32 s64 u64")
    },
    **{
        f"user_{word}": f"write *({type} *)pointer"
        for word, type in (
            ("char", "int8"), ("short", "int16"), ("ushort", "uint16"), ("int", "int32"), ("uint", "uint32"),
            ("long", "int64"), ("ulong", "uint64"),
            *((f"{sign}int{bits}", f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
        )
    },
    "errno": "the result of a call is retval, in a uretprobe",
    # stacks
    **dict.fromkeys(
        _words("ubacktrace sprint_ubacktrace jstack callers ucallers ucaller caller"), "ustack is the stack"
    ),
    **dict.fromkeys(
        _words("print_ubacktrace print_ubacktrace_brief bt backtrace where"), "print(ustack) prints the stack"
    ),
    **dict.fromkeys(_words("print_backtrace print_stack sprint_backtrace"), _KERNEL_STACK),
    **dict.fromkeys(
        _words("usymname usymdata ufunc usymfileline umodname umod symname symdata func_name"),
        "usym(address) is the function there",
    ),
    # values that last
    **dict.fromkeys(_words("self this"), _SEPARATE),
    "global": "maps need no declaration: write @x = …;",
    # aggregations
    **dict.fromkeys(_words("quantize llquantize hist_log"), "hist(n) counts by powers of two"),
    **dict.fromkeys(_words("lquantize hist_linear"), "lhist(n, low, high, step) counts by equal steps"),
    **dict.fromkeys(
        _words("percentile percentiles quantile median p50 p90 p95 p99"),
        "quantiles(n) shows the 50th, 90th, 99th and 99.9th percentile; quantiles(n, 75) the 75th",
    ),
    "stddev": "stats(n) shows count, average and total; quantiles(n) how values spread",
    "trunc": "print(@x, 5) prints the 5 largest; clear(@x) empties the map",
    **dict.fromkeys(_words("normalize denormalize"), "print(@x, 0, 1000) prints the values divided by 1000"),
    "printa": "print(@x) prints a map",
    # statements
    **dict.fromkeys(_words("println log trace"), "print(value) prints it and a newline"),
    "warn": 'warnf("%s\\n", text) prints to stderr',
    "error": 'errorf("%s\\n", text) prints to stderr',
    "next": "return ends the clause",
    **dict.fromkeys(_words("stop raise"), 'signal("SIGSTOP") sends a signal, with --unsafe'),
    **dict.fromkeys(_words("sprintf strjoin"), 'printf("%s%s", a, b) prints several; str_concat(a, b) joins two'),
    **dict.fromkeys(
        _words("substr strrchr strchr index rindex"), "str(pointer + n) begins n bytes on; strstr(a, b) searches"
    ),
    "isinstr": "write strcontains(text, part)",
    "strlen_user": "write strlen(str(pointer))",
    # the C of BCC
    "bpf_ktime_get_ns": "nsecs counts nanoseconds",
    "bpf_get_current_pid_tgid": "pid is the process, tid the thread",
    "bpf_get_current_comm": "comm is the thread's name",
    "bpf_get_current_uid_gid": "uid is the user, gid the group",
    **dict.fromkeys(_words("bpf_trace_printk perf_submit"), 'write printf("%d\\n", value)'),
    **dict.fromkeys(
        _words("bpf_probe_read bpf_probe_read_user bpf_probe_read_str bpf_probe_read_user_str"),
        "str(pointer) is a string, *(int32 *)pointer a number",
    ),
    "bpf_usdt_readarg": "arguments are arg0, arg1, …",
    "PT_REGS_RC": "retval is the result, in a uretprobe",
    "PT_REGS_IP": 'write reg("ip")',
    "PT_REGS_SP": 'write reg("sp")',
    **{f"PT_REGS_PARM{number + 1}": f"write arg{number}" for number in range(6)},
}  # fmt: skip
"""What a name or a function of another tool is here."""

_WHOLE = {
    "vars": "vars holds the variables there, args the parameters",
    "locals": "vars holds the variables there",
    "parms": "args holds the parameters",
    "return": "retval is the result, in a uretprobe",
    "name": "func is the function, probe the whole attach point",
}
"""SystemTap's `$$vars` and its like."""

_VARIABLES = {
    **dict.fromkeys(("retval", "return"), "retval is the result, in a uretprobe"),
    "comm": "comm is the thread's name, and needs no $",
    "stack": 'reg("sp") is where the stack begins',
    "target": _COMMAND,
}

_ON_MAPS = {
    **dict.fromkeys(
        _words("count sum avg min max hist_log hist_linear variance"),
        "a map is filled by its aggregation: @x = count(), sum(n), avg(n), min(n), max(n), hist(n) or"
        " lhist(n, 0, 100, 10); print(@x) shows it",
    ),
    "cast": "a cast is ((struct t *)pointer)->member",
    "var": '*uaddr("name") is a variable of the program, vars.name one of the function',
    "entry": "keep it at the entry: @x[tid] = arg0;",
    "defined": "what is not there is an error before anything is traced",
}
"""SystemTap's words that begin with @ as maps do."""

_TYPES = {
    **{f"{sign}{bits}": f"{long}{bits}" for sign, long in (("s", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)},
    **{f"x{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
_NEAR = 200
"""So much of the text around a fault is looked at."""
_REGISTER = re.compile(r"(?:[er]?(ax|bx|cx|dx|si|di|bp|sp|ip)|(r(?:8|9|1[0-5]))d?|(pc))$")
_FETCH = re.compile(r"([@+-]u?[\w]+\(.*\)|[@%$][\w+-]+)(?::(\w+))?$")


def named(word: str) -> str | None:
    """The hint for an unknown name or function."""
    if word.startswith(("REG_", "R_")):
        return register(word.partition("_")[2].lower())
    if word == "REG":
        return 'reg("di") is a register'
    return _NAMES.get(word) or register(word)


def variable(word: str) -> str | None:
    """The hint for a `$word` that nothing assigns."""
    word = word.removeprefix("$")
    if match := re.fullmatch(r"(arg|stack)([0-9]{1,3})", word):
        number = int(match[2])
        if match[1] == "stack":
            return f"write {_fetched(f'$stack{number}', '')}"
        return f"arguments are counted from 0: write arg{max(number - 1, 0)}"
    return _VARIABLES.get(word) or register(word)


def register(word: str) -> str | None:
    """The hint for a register's name without `reg()`."""
    match = _REGISTER.match(word)
    return f'write reg("{match[1] or match[2] or match[3]}")' if match else None


def fetched(text: str) -> str | None:
    """A fetch argument of uprobe_events (`name=+8(%di):string`) as an expression; None for what is none."""
    match = _FETCH.match(text.partition("=")[2] or text)
    return _fetched(match[1], match[2] or "") if match else None


def _fetched(place: str, type: str) -> str:
    if type in ("string", "ustring"):
        inner = re.fullmatch(r"([+-])u?(\w+)\((.*)\)", place)
        if inner is None:
            return f"str({_fetched(place, '')})"
        return f"str({_sum(inner[3], inner[1], inner[2])})"
    if match := re.fullmatch(r"([+-])u?(\w+)\((.*)\)", place):
        return f"*({_TYPES.get(type, 'uint64')} *){_in_brackets(_sum(match[3], match[1], match[2]))}"
    if match := re.fullmatch(r"@(0[xX]\w+|[0-9]+)", place):
        return f"*({_TYPES.get(type, 'uint64')} *){match[1]}"
    if match := re.fullmatch(r"\$(arg|stack)([0-9]+)", place):
        number = int(match[2])
        stack = f'reg("sp") + {8 * number}' if number else 'reg("sp")'
        text = f"arg{number - 1}" if match[1] == "arg" else f"*(uint64 *){_in_brackets(stack)}"
    elif place.startswith("%"):
        match = _REGISTER.match(place[1:])
        text = f'reg("{match[1] or match[2] or match[3] if match else place[1:]}")'
    else:
        text = {"$stack": 'reg("sp")'}.get(place, place[1:])
    return f"({_TYPES[type]}){text}" if type in _TYPES else text


def _sum(inner: str, sign: str, distance: str) -> str:
    base = _fetched(inner, "")
    return base if distance == "0" else f"{base} {sign} {distance}"


def _in_brackets(text: str) -> str:
    return f"({text})" if " " in text else text


def hint_at(text: str, offset: int) -> str | None:
    """The hint for what stands in `text` at an offset, where the parser found something else than it takes."""
    before = text[max(offset - _NEAR, 0) : offset].rpartition("\n")[2]
    rest = text[offset : offset + _NEAR].partition("\n")[0]
    if match := re.match(r"\$\$(\w*)", rest):
        return _WHOLE.get(match[1])
    if match := re.match(r"%(\w+)", rest):
        return register(match[1])
    if rest.startswith("(") and (match := re.search(r"@(\w+)$", before)):
        return _ON_MAPS.get(match[1])
    if rest.startswith("(") and (match := re.search(r"[+-]u?[0-9]\w*$", before)):
        whole = _balanced(rest)
        translated = whole and fetched(match[0] + whole)
        return translated and f"write {translated}"
    if rest.startswith("(") and (match := re.search(r"\b([sux](?:8|16|32|64))$", before)):
        return f"write ({_TYPES[match[1]]})value" if match[1] in _TYPES else None
    if (match := re.search(r"([\w$%@]+)$", before)) and (type := re.match(r":(\w+)", rest)):
        if type[1] in ("string", "ustring"):
            return f"write str({match[1]})"
        return f"write ({_TYPES[type[1]]}){match[1]}" if type[1] in _TYPES else None
    if before.endswith("@") and (match := re.match(r"(?:0[xX])?[0-9a-fA-F]+", rest)):
        return f"write *(uint64 *){match[0]}"
    if re.search(r"\bx/\w*\s+$", before):
        return 'str(reg("di")) is the string there, *(uint64 *)reg("di") a number'
    return None


def _balanced(text: str) -> str | None:
    """A text's first bracket to the one that closes it, and the type behind it."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            type = re.compile(r":\w+").match(text, place + 1)
            return text[: place + 1] + (type[0] if type else "")
    return None
