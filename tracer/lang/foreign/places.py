"""Attach points of other tools: perf-tools' and uprobe_events' `p:` and `r:`, DTrace's four parts, SystemTap's
`process("x").function("f")`, gdb's `break f`, perf's `f%return`, ltrace's `f@lib`, BCC's `c:f`.
"""

from __future__ import annotations

import re

from tracer.dataclass import NamedTuple
from tracer.lang import unsupported
from tracer.lang.foreign import words

_words = str.split
_OF_KERNEL = frozenset(_words("fbt syscall nd_syscall sched proc io ip tcp udp vminfo sysinfo lockstat kernel module"))
_LONGEST = 400
"""Longer lines are no attach points that somebody has pasted."""
_TIMES = {"sec": "s", "msec": "ms", "usec": "us", "jiffies": "", "ns": "", "nsec": ""}
_GDB = ("break", "b", "tbreak", "br", "dprintf")
_QUOTED = r'"([^"]*)"'


class Meant(NamedTuple):
    """The name of a foreign attach point, how it is written here, and how many characters it has."""

    message: str
    hint: str
    length: int = 0


SHARED = "p", "profile"
"""Words of ours with which lines of perf-tools and probes of DTrace begin too."""


def meant(text: str, start: int, shared: bool = False) -> Meant | None:
    """Translates the attach point of another tool at an offset of the text; None where no tool has it. It reads the
    whole line, since elsewhere an attach point may go on behind a blank. `shared`: it begins with
    one of the words that are `SHARED`.
    """
    match = re.compile(r"[^\n{;]*").match(text, start)
    line = match[0].strip() if match else ""
    if len(line) > _LONGEST:
        return None
    readers = (_event_line, _dtrace_time) if shared else _READERS
    for read in readers:
        if (translated := read(line)) is not None:
            predicate = re.search(r"\s/(?!\S*:)", line)
            return translated._replace(length=predicate.start() if predicate else len(line))
    return None


def parts(fields: list[str]) -> Meant | None:
    """Translates an attach point here whose last part is DTrace's, or perf's: `uprobe:libc:malloc:entry`."""
    if len(fields) == 3 and fields[2] in ("entry", "return"):
        kind = "uprobe" if fields[2] == "entry" else "uretprobe"
        return Meant(f"'{fields[2]}' is DTrace's word", f"write {kind}:{fields[0]}:{fields[1]}")
    if len(fields) == 2 and fields[1].endswith("%return"):
        return Meant("'%return' is perf's word", f"write uretprobe:{fields[0]}:{fields[1].removesuffix('%return')}")
    return None


def _event_line(line: str) -> Meant | None:
    """`p:libc:sleep`, `r:bash:readline +0($retval):string`, `p:group/event /bin/bash:0x4245c0 %ax`."""
    match = re.match(r"([pr])[0-9]*(?::(\S*))?(?:\s+(.*))?$", line)
    if match is None:
        return None
    letter, first, rest = match[1], match[2] or "", (match[3] or "").split()
    if letter == "p" and re.match(r"(hz|s|ms|us|ns):[0-9]", first):
        return None  # bpftrace's profile
    if rest and re.match(r"/?[\w./+-]+:\S+", rest[0]) and (":" not in first or rest[0].startswith("/")):
        place, *values = rest
    else:
        place, values = first, rest
    place = re.sub(r"\(.*", "", place)
    path, _, name = place.partition(":")
    if not name:
        return None
    if name.endswith("%return"):
        letter, name = "r", name.removesuffix("%return")
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", name):
        name = f"offset:{name}"
    kind = "uprobe" if letter == "p" else "uretprobe"
    translated = [expression for value in values if (expression := words.fetched(value))]
    body = f"print({translated[0]});" if len(translated) == 1 else f"print(({', '.join(translated)}));"
    return Meant(
        f"'{match[1]}:' begins a probe of perf-tools and uprobe_events",
        f"write {kind}:{_library(path)}:{name} {{ {body if translated else '…'} }}",
    )


def _perf_event(line: str) -> Meant | None:
    """`probe_libc:sleep`, `sdt_libc:setjmp`: events that perf defined; `f%return`."""
    if match := re.match(r"(probe|sdt)_(\w+):(\w+)", line):
        kind = "uprobe" if match[1] == "probe" else "usdt"
        name = re.sub(r"__return$", "", match[3])
        kind = "uretprobe" if name != match[3] else kind
        return Meant(f"'{match[1]}_{match[2]}:{match[3]}' is an event of perf", f"write {kind}:{match[2]}:{name}")
    if match := re.match(r"(\w+)%return\b", line):
        return Meant("'%return' is perf's word", f"write uretprobe:FILE:{match[1]}")
    return None


def _systemtap(line: str) -> Meant | None:
    """`probe process("x").function("f").return`, `timer.s(1)`, `begin`, `global x`, `function f(x)`."""
    text = line.removeprefix("probe ").lstrip()
    told = "'probe' is SystemTap's word" if text != line else f"'{re.split('[^a-z_]', text)[0]}' is SystemTap's word"
    if re.match(r"global\s", line):
        return Meant(told, "maps need no declaration: write @x in a clause")
    if re.match(r"function\s", line):
        return Meant(told, "write macro name($variable, @map, expression) { … }")
    if text != line and re.match(r"(begin|end)\b", text):
        return Meant(told, f"write {text[:5].strip(' ,').upper()} {{ … }}")
    if match := re.match(r"timer\.(\w+)\((\d+)\)", text):
        unit = _TIMES.get(match[1], match[1])
        if unit in ("s", "ms", "us"):
            return Meant(told, f"write interval:{unit}:{match[2]} {{ … }}")
        return Meant(told, "interval:s:1 runs a clause at fixed times")
    if re.match(r"timer\.profile\b", text):
        return Meant(told, "write profile:hz:99 { … }")
    if match := re.match(r"(?:nd_)?syscall\.(\w+)(\.return)?", text):
        return _system_call("'syscall' is SystemTap's word", match[1], match[2] is not None)
    if match := re.match(r"(kernel|module)\b[.(]", text):
        return _of_kernel(match[1])
    if not re.match(r"process\b[.(]", text):
        return Meant(told, "write the attach point alone: uprobe:FILE:FUNCTION { … }") if text != line else None
    files = [name for _, name in re.findall(rf"\b(process|library)\({_QUOTED}\)", text)]
    file = files[-1] if files else "FILE"
    if match := re.search(rf"\.provider\({_QUOTED}\)\.mark\({_QUOTED}\)", text):
        return Meant(told, f"write usdt:{file}:{match[1]}:{match[2]} {{ … }}")
    if match := re.search(rf"\.mark\({_QUOTED}\)", text):
        return Meant(told, f"write usdt:{file}:{match[1]} {{ … }}")
    if match := re.search(rf"\.(?:function|statement|plt)\({_QUOTED}\)", text):
        name, _, source = match[1].partition("@")
        source, _, line_number = source.partition(":")
        if line_number.isdigit():
            return Meant(told, f"write uprobe:{file}:{source}:{line_number} {{ … }}")
        file = f"{file}@{source}" if source else file
        kind = "uretprobe" if ".return" in text else "uprobe"
        return Meant(told, f"write {kind}:{file}:{name} {{ … }}")
    return Meant(told, "no probe is on the start or end of a process; uprobe:FILE:main is where a program begins")


def _dtrace_time(line: str) -> Meant | None:
    """`profile:::tick-1s`, `tick-1s`, `profile-99`."""
    if match := re.match(r"(?:profile:::)?tick-(\d+)([a-z]*)", line):
        unit = _TIMES.get(match[2], match[2])
        if unit in ("s", "ms", "us"):
            return Meant("'tick' is DTrace's word", f"write interval:{unit}:{match[1]} {{ … }}")
        return Meant("'tick' is DTrace's word", "interval:s:1 runs a clause at fixed times")
    if match := re.match(r"(?:profile:::)?profile-(\d+)([a-z]*)", line):
        unit = _TIMES.get(match[2], match[2])
        unit = unit if unit in ("s", "ms", "us") else "hz"
        return Meant("'profile-' is DTrace's word", f"write profile:{unit}:{match[1]} {{ … }}")
    return None


def _dtrace(line: str) -> Meant | None:
    """`pid$target:libc:malloc:entry`, `python*:::function-entry`, `dtrace:::BEGIN`."""
    if match := re.match(r"dtrace:::(BEGIN|END|ERROR)", line):
        return Meant("'dtrace' is DTrace's word", f"write {match[1].replace('ERROR', 'END')} {{ … }}")
    match = re.match(r"([\w*]+?)(\$target|\$\d+|\d+)?:([^:\s]*):([^:\s]*):([^:\s/]+)", line)
    if match is None:
        return None
    provider, process, module, function, name = match.groups()
    if provider == "syscall":
        return _system_call("'syscall' is DTrace's word", function, name == "return")
    if provider in _OF_KERNEL:
        return _of_kernel(provider)
    file = _library(module) or "FILE"
    where = ", with -p PID or -c COMMAND" if process else ""
    if provider == "pid":
        if name in ("entry", "return"):
            kind = "uprobe" if name == "entry" else "uretprobe"
            return Meant("'pid' is DTrace's word", f"write {kind}:{file}:{function or '*'} {{ … }}{where}")
        if re.fullmatch(r"[0-9a-f]+", name):
            return Meant("'pid' is DTrace's word", f"write uprobe:{file}:{function}+0x{name} {{ … }}{where}")
        return Meant("'pid' is DTrace's word", f"write uprobe:{file}:{function or '*'} {{ … }}{where}")
    if process or provider.endswith("*") or (not module and not function):
        provider = provider.rstrip("*")
        name = name.replace("-", "__")
        return Meant("USDT probes are named another way", f"write usdt:{file}:{provider}:{name} {{ … }}{where}")
    return None


def _gdb(line: str) -> Meant | None:
    """`break loc.c:9`, `dprintf f,"%d", x`."""
    word, _, rest = line.partition(" ")
    if word not in _GDB or not rest:
        return None
    place, _, values = rest.partition(",")
    place = place.strip().lstrip("*")
    body = f"printf({values.strip()});" if values else "…"
    return Meant(f"'{word}' is gdb's word", f"write uprobe:FILE:{place} {{ {body} }}")


def _named_in_file(line: str) -> Meant | None:
    """`loc.c:9`, `malloc@libc.so.6`, `c:malloc`."""
    if match := re.match(r"([\w./-]+\.(?:c|cc|cpp|cxx|rs|go|h|hpp|zig|d|f90)):(\d+)\b", line):
        return Meant("the attach point has no probe type", f"write uprobe:FILE:{match[0]} {{ … }}")
    if match := re.match(r"([\w*]+)@([\w.*+-]+)$", line):
        return Meant("the attach point has no probe type", f"write uprobe:{_library(match[2])}:{match[1]} {{ … }}")
    if match := re.match(r"(c|lib[\w.+-]*|/[^\s:]+):([\w*]+)$", line):
        return Meant("the attach point has no probe type", f"write uprobe:{_library(match[1])}:{match[2]} {{ … }}")
    return None


def _system_call(message: str, name: str, ends: bool) -> Meant:
    side = "exit" if ends else "enter"
    return Meant(message, f"write tracepoint:syscalls:sys_{side}_{name or '*'} {{ … }}")


def _of_kernel(word: str) -> Meant:
    reason, remedy = unsupported.PROBES["kprobe"]
    return Meant(f"{word} probes are not supported: {reason}", remedy)


def _library(name: str) -> str:
    """A library's short name: `libc` of `libc.so.6` and of BCC's `c`; a program that DTrace calls `a.out` is FILE."""
    if name in ("a.out", "*"):
        return "FILE"
    return "libc" if name == "c" else re.sub(r"^(lib[^/]*?)\.so\b.*$", r"\1", name)


_READERS = (_event_line, _perf_event, _systemtap, _dtrace_time, _dtrace, _gdb, _named_in_file)
