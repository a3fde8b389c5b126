"""Tools of one question each: BCC's argdist, funccount and trace, perf-tools' uprobe."""

from __future__ import annotations

import platform
import re
import shutil
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from scripts.benchmark.answers import NAMES, differs, spread_over
from scripts.benchmark.attending import Attended, attend
from scripts.benchmark.children import Child
from scripts.benchmark.model import Cannot, Reading
from scripts.benchmark.printed import judged
from scripts.benchmark.setting import Setting
from scripts.benchmark.speakers import ROOT
from scripts.benchmark.subjects import Subjects, place_of_function

NAMES_OF_TOOLS = ("argdist", "funccount", "trace", "uprobe")

# Debian's names, and where other distributions put BCC's.
_PLACES = {
    "argdist": ("argdist-bpfcc", "/usr/share/bcc/tools/argdist"),
    "funccount": ("funccount-bpfcc", "/usr/share/bcc/tools/funccount"),
    "trace": ("trace-bpfcc", "/usr/share/bcc/tools/trace"),
    "uprobe": ("uprobe-perf",),
}
_ONLY = {
    "argdist": "only counts values and makes histograms of them",
    "funccount": "only counts calls",
    "trace": "only prints events",
    "uprobe": "only prints events",
}
_ARGUMENTS = {"x86_64": ("%di", "%si"), "aarch64": ("%x0", "%x1")}
_TRACEFS = Path("/sys/kernel/tracing")
_QUIET_S = 1.0
_HEADER = re.compile(rb"^\[\d\d:\d\d:\d\d\]$", re.MULTILINE)

Run = Callable[[], Reading]


def runs_of_hits(setting: Setting, question: str) -> tuple[dict[str, Run], dict[str, str]]:
    """The tools that can answer one of the questions of hit.py, and why others cannot."""
    asked: dict[str, Run] = {}
    if question in _EXPRESSIONS:
        asked["argdist"] = partial(_argdist, setting, question)
    if question == "count":
        asked["funccount"] = partial(_funccount, setting)
    return _sorted(asked)


def runs_of_events(setting: Setting) -> tuple[dict[str, Run], dict[str, str]]:
    """The tools that print."""
    return _sorted({"trace": partial(_trace, setting), "uprobe": partial(_uprobe, setting)})


def _sorted(asked: Mapping[str, Run]) -> tuple[dict[str, Run], dict[str, str]]:
    runs, absent = {}, {}
    for tool in NAMES_OF_TOOLS:
        if tool not in asked:
            absent[tool] = _ONLY[tool]
        elif _path(tool) is None:
            absent[tool] = f"not installed: {_PLACES[tool][0]}"
        else:
            runs[tool] = asked[tool]
    return runs, absent


@cache
def _path(tool: str) -> str | None:
    return next((path for place in _PLACES[tool] if (path := shutil.which(place))), None)


def _command(tool: str) -> str:
    path = _path(tool)
    if path is None:
        raise Cannot(f"not installed: {_PLACES[tool][0]}")
    return path


def _environment(subjects: Subjects) -> dict[str, str]:
    """BCC's tools want kernel headers, which the stubs of tracer can be, with a file more."""
    tree = subjects.home / "headers"
    if not tree.exists():
        shutil.copytree(ROOT / "bpf_programs" / "kernel", tree)
        (tree / "include" / "linux" / "sched.h").write_text("#define TASK_COMM_LEN 16\n")
    return {"BCC_KERNEL_SOURCE": str(tree), "PYTHONUNBUFFERED": "1"}


# The expression that argdist counts or makes a histogram of. It computes with a function's arguments, not with a USDT
# probe's.
_EXPRESSIONS = {
    "count": ("-C", "u:{}:hit():int:1"),
    "hist": ("-H", "u:{}:hit():int:arg1"),
    "key": ("-C", "p:{}:bench_hit(int number):int:number&15"),
    "string": ("-C", "u:{}:hit():char*:arg2"),
    "string-cold": ("-C", "u:{}:hit():char*:arg2"),
}


def _argdist(setting: Setting, question: str) -> Reading:
    kind, probe = _EXPRESSIONS[question]
    probe = probe.format(setting.subjects.hits)
    what = {"string-cold": "ucw", "key": "ftw"}.get(question, "utw")

    def command(pid: int) -> list[str]:
        return [_command("argdist"), "-p", str(pid), "-i", "1", "-c", kind, probe]

    done = _attend(setting, setting.subjects.command(what, setting.hits), command, _after_a_table)
    table = _HEADER.split(done.tracer.out)[-1]
    return Reading({question: done.cost.ns}, _faults_of_argdist(question, table, done.cost.hits))


def _faults_of_argdist(question: str, table: bytes, hits: int) -> tuple[str, ...]:
    if question == "hist":
        counted = sum(int(count) for count in re.findall(rb"-> \d+\s*: (\d+)", table))
        return () if counted == hits else (f"counts {counted:,} of {hits:,}",)
    rows = re.findall(rb"^\t(\d+)\s+\S.* = (?:b'(.*)'|(-?\d+))$", table, re.MULTILINE)
    counts = {(text or number).decode(): int(count) for count, text, number in rows}
    keys = {"count": ["1"], "key": [str(number) for number in range(16)]}.get(question, NAMES)
    return differs(counts, spread_over(keys, hits))


def _funccount(setting: Setting) -> Reading:
    def command(pid: int) -> list[str]:
        return [_command("funccount"), "-p", str(pid), f"{setting.subjects.hits}:bench_hit"]

    done = _attend(setting, setting.subjects.command("ftw", setting.hits), command, Child.interrupt)
    # Where the process is gone before its symbols are looked up, the function has no name.
    match = re.search(rb"^FUNC +COUNT\n.* +(\d+)$", done.tracer.out, re.MULTILINE)
    faults = differs({"": int(match[1])}, {"": done.cost.hits}) if match else ("prints no count",)
    return Reading({"count": done.cost.ns}, faults)


def _trace(setting: Setting) -> Reading:
    def command(pid: int) -> list[str]:
        return [_command("trace"), "-p", str(pid), f'u:{setting.subjects.hits}:hit "%d %s", arg1, arg2']

    target = setting.subjects.command("utw", setting.events)
    done = _attend(setting, target, command, _when_quiet)
    return judged(done.tracer, setting.events, done.to_last_output_s)


def _uprobe(setting: Setting) -> Reading:
    registers = _ARGUMENTS.get(platform.machine())
    if registers is None:
        raise Cannot(f"the benchmark does not know {platform.machine()}'s registers")
    _need_idle_ftrace()
    subjects = setting.subjects
    offset = place_of_function(subjects.hits, "bench_hit").offset
    number, string = registers
    probe = f"p:bench_hit {subjects.hits}:{offset:#x} i={number}:s32 s=+0({string}):string"

    def command(pid: int) -> list[str]:
        # It looks for tracefs under debugfs, which need not be mounted; here it is for this process alone.
        mount = '[ -d /sys/kernel/debug/tracing ] || mount -t debugfs none /sys/kernel/debug && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, "sh", _command("uprobe"), "-p", str(pid), probe]

    done = _attend(setting, subjects.command("ftw", setting.events), command, _when_quiet)
    return judged(done.tracer, setting.events, done.to_last_output_s)


def _need_idle_ftrace() -> None:
    """Uprobe empties ftrace's own buffer and sets its tracer: not where somebody else has work there.

    The kernel switches bpf_trace_printk on when it verifies the first program that could call that helper, and never
    off again (6.18, after bpftrace 0.27.1's debugf()): nobody's work.
    """
    try:
        tracer, events = ((_TRACEFS / name).read_text().strip() for name in ("current_tracer", "set_event"))
    except OSError as error:
        raise Cannot(f"{_TRACEFS} cannot be read: {error.strerror}") from error
    others = [event for event in events.split() if event != "bpf_trace:bpf_trace_printk"]
    if tracer != "nop" or others:
        raise Cannot(f"ftrace's own buffer is in use: {tracer if tracer != 'nop' else others[0]}")


def _attend(
    setting: Setting, target: list[str], command: Callable[[int], list[str]], finish: Callable[[Child], None]
) -> Attended:
    return attend(setting.subjects, target, command, finish, setting.timeout_s, _environment(setting.subjects))


def _after_a_table(running: Child) -> None:
    """Argdist prints a table each second: the next one holds all hits."""
    printed = len(_HEADER.findall(running.out))
    end = time.monotonic() + 10
    while len(_HEADER.findall(running.out)) == printed and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)  # its rows
    running.interrupt()


def _when_quiet(running: Child) -> None:
    """A printer may still have much to print."""
    end = time.monotonic() + 60
    while time.perf_counter() - running.last_output < _QUIET_S and time.monotonic() < end:
        time.sleep(0.1)
    running.interrupt()
