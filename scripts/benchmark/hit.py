"""The cost of a hit to the target: nanoseconds of CPU time, including its own loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from scripts.benchmark.answers import NAMES, buckets, differs, entries, log2_counts, spread_over
from scripts.benchmark.attending import empty
from scripts.benchmark.children import run
from scripts.benchmark.model import Reading, Row, Work
from scripts.benchmark.setting import Setting, by_all, ended_well, floor, spent, traced, with_tools
from scripts.benchmark.speakers import Speaker
from scripts.benchmark.subjects import place_of_usdt
from scripts.benchmark.tools import runs_of_hits

Check = Callable[[bytes, int], tuple[str, ...]]


@dataclass(frozen=True)
class Question:
    """A body of a probe and what it must answer after so many hits; `what` is the target's first word, `types` what
    the program declares.
    """

    key: str
    title: str
    body: str
    check: Check
    what: str = "ut"
    types: str = ""


def no_answer(_out: bytes, _hits: int) -> tuple[str, ...]:
    """The faults in the answer of an empty body: none."""
    return ()


def counted(out: bytes, hits: int) -> tuple[str, ...]:
    """The faults in the answer of `@ = count()`."""
    return differs(entries(out), {"": hits})


def in_buckets(out: bytes, hits: int) -> tuple[str, ...]:
    """The faults in the answer of `@ = hist(arg0)`."""
    counts, expected = buckets(out), log2_counts(hits)
    if counts == expected:
        return ()
    return (f"counts {sum(counts):,} of {hits:,}" if sum(counts) != hits else "wrong buckets",)


def by_number(out: bytes, hits: int) -> tuple[str, ...]:
    """The faults in the answer of `@[arg0 & 15] = count()`."""
    return differs(entries(out), spread_over(map(str, range(16)), hits))


def by_name(out: bytes, hits: int) -> tuple[str, ...]:
    """The faults in the answer of `@[str(arg1)] = count()`."""
    return differs(entries(out), spread_over(NAMES, hits))


def by_member(out: bytes, hits: int) -> tuple[str, ...]:
    """The faults in the answer about the number in the inner one of two structs."""
    return differs(entries(out), spread_over(map(str, range(4)), hits))


def each_timed(out: bytes, hits: int) -> tuple[str, ...]:
    """The faults in the answer about the time since the hit before: all hits are in some bucket."""
    counted = sum(buckets(out))
    return () if counted == hits else (f"counts {counted:,} of {hits:,}",)


_TYPES = "struct inner { int pad; int number; }; struct outer { long pad; struct inner *inner; };"
_MEMBER = "@[((struct outer *)arg1)->inner->number] = count();"
_SINCE = "@ = hist(nsecs - @last[tid]); @last[tid] = nsecs;"

QUESTIONS = (
    Question("empty", "an empty probe", "", no_answer),
    Question("count", "@ = count()", "@ = count();", counted),
    Question("hist", "@ = hist(arg0)", "@ = hist(arg0);", in_buckets),
    Question("key", "@[arg0 & 15] = count()", "@[arg0 & 15] = count();", by_number),
    Question("string", "@[str(arg1)] = count(), touched", "@[str(arg1)] = count();", by_name),
    Question("string-cold", "@[str(arg1)] = count(), not in memory", "@[str(arg1)] = count();", by_name, "uc"),
    Question("member", "@[$outer->inner->number] = count()", _MEMBER, by_member, "utm", _TYPES),
    Question("span", _SINCE.removesuffix(";"), _SINCE, each_timed),
)

_CALLS = {"idiom": "the time between @start[tid] = nsecs and the return", "call": "call: { @ = hist(duration) }"}


def hit(setting: Setting) -> list[Work]:
    """The floors and the standard questions, each of a million hits or so of one site."""
    return [
        floor("hit", Row("untraced", "a hit: no probe", "ns", 1), partial(_untraced, setting)),
        floor(
            "hit", Row("filtered", "a hit: an event of ftrace, filtered away", "ns"), partial(_floor, setting, "ftrace")
        ),
        floor(
            "hit",
            Row("program-perf", "a hit: an empty BPF program, perf event", "ns"),
            partial(_floor, setting, "perf"),
        ),
        floor(
            "hit", Row("program", "a hit: an empty BPF program, uprobe_multi", "ns"), partial(_floor, setting, "multi")
        ),
        *(_of(setting, question) for question in QUESTIONS),
        *(_of_calls(setting, key, title) for key, title in _CALLS.items()),
    ]


def _of_calls(setting: Setting, key: str, title: str) -> Work:
    """Durations of calls, each with two hits."""
    row = Row(key, f"two hits: {title}", "ns", floor="program")
    return by_all(setting, "hit", [row], partial(ask_calls, setting, key))


def ask_calls(setting: Setting, key: str, one: Speaker) -> Reading:
    """Runs one way to time calls. bpftrace knows one alone."""
    subjects = setting.subjects
    idiom = (
        f"{subjects.function} {{ @start[tid] = nsecs; }}"
        f" {subjects.function.replace('uprobe', 'uretprobe')} /@start[tid]/"
        " { @ = hist(nsecs - @start[tid]); delete(@start, tid); }"
    )
    call = f"{subjects.function.replace('uprobe', 'call')} {{ @ = hist(duration); }}"
    ran = traced(setting, one, call if key == "call" and one.is_tracer else idiom, subjects.command("ft", setting.hits))
    cost = spent(setting)
    return Reading({key: cost.ns}, each_timed(ran.out, cost.hits))


def _of(setting: Setting, question: Question) -> Work:
    row = Row(question.key, f"a hit: {question.title}", "ns", floor="program")
    work = by_all(setting, "hit", [row], partial(ask, setting, question))
    return with_tools(work, *runs_of_hits(setting, question.key))


def ask(setting: Setting, question: Question, one: Speaker) -> Reading:
    """Runs one question."""
    subjects = setting.subjects
    program = f"{question.types}{subjects.usdt} {{ {question.body} }}"
    ran = traced(setting, one, program, subjects.command(question.what, setting.hits))
    cost = spent(setting)
    return Reading({question.key: cost.ns}, question.check(ran.out, cost.hits))


def _untraced(setting: Setting) -> float:
    setting.subjects.forget()
    ended_well(run(setting.subjects.command("ut", setting.hits), setting.timeout_s))
    cost = setting.subjects.cost()
    assert cost is not None, "it ended well"
    return cost.ns


def _floor(setting: Setting, how: str) -> float:
    subjects = setting.subjects
    command = subjects.command("utw", setting.hits)
    return empty(how, subjects, place_of_usdt(subjects.hits), command, setting.timeout_s).ns
