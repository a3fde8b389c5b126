"""Measures how cost grows: with keys, threads, the length of strings, and the number of sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from scripts.benchmark.answers import NAMES, differs, entries, lost, spread_over
from scripts.benchmark.children import Ran
from scripts.benchmark.model import Cannot, Reading, Row, Work
from scripts.benchmark.setting import Setting, by_all, spent, traced
from scripts.benchmark.speakers import Speaker

SITES = (1, 10, 100, 1_000, 10_000)
KEYS = (1, 100, 10_000, 100_000)
THREADS = (1, 2, 4)
LENGTHS = (16, 128, 1_024)
_SITE_BY_SITE_S = 0.05
"""More than this for a site is no noise, and no contestant that attaches them all at once."""


@dataclass(frozen=True)
class Point:
    """A point of a curve: the program's body, the target's words after the hits, what must come out."""

    row: Row
    body: str
    words: Mapping[str, int]
    expected: Mapping[str, int]
    environment: Mapping[str, str] = field(default_factory=dict)


class Patience:
    """The times that each contestant took for how many sites, in seconds.

    One that attaches site by site takes minutes for thousands, and as long again, deaf to every signal, to let go of
    them (bpftrace 0.17 on Linux 6.18: 0.1 to 0.4 s a site); it is not asked for more than it can do.
    """

    def __init__(self, limit_s: float = 5.0) -> None:
        self._limit_s = limit_s
        self._took: dict[tuple[str, int], float] = {}

    def ask(self, who: str, count: int) -> None:
        """Raises Cannot where it would take too long, by what fewer took beyond one."""
        for fewer in sorted((fewer for name, fewer in self._took if name == who and 1 < fewer < count), reverse=True):
            beyond = self._took[who, fewer] - self._took.get((who, 1), 0.0)
            if beyond / fewer > _SITE_BY_SITE_S and beyond * count / fewer > self._limit_s:
                raise Cannot(f"would take {beyond * count / fewer:,.0f} s; {fewer:,} sites take {beyond:.1f} s")
            return

    def note(self, who: str, count: int, seconds: float) -> None:
        """Notes the seconds that a contestant took."""
        self._took[who, count] = seconds


def sites(setting: Setting) -> list[Work]:
    """The works from start to end with so many functions of one program, each called once."""
    works = []
    patience = Patience()
    for count in (count for count in SITES if count <= setting.most):
        row = Row(f"sites-{count}", f"{_counted(count, 'function')} attached and detached, whole process", "ms")
        ask = partial(_attach, setting, patience, row.key, count)
        works.append(by_all(setting, "sites", [row], ask, ask))
    return works


def growth(setting: Setting) -> list[Work]:
    """The cost of a hit at each point; the answer must stay right too."""
    patience = Patience()
    works = [by_all(setting, "growth", [point.row], partial(_ask, setting, point)) for point in _points(setting)]
    for count in (count for count in SITES[::2] if count <= setting.most):
        row = Row(f"sites-hit-{count}", f"a hit, {_counted(count, 'site')}", "ns", floor="program")
        works.append(by_all(setting, "growth", [row], partial(_spread, setting, patience, row.key, count)))
    return works


def _points(setting: Setting) -> list[Point]:
    hits = setting.hits

    def row(kind: str, number: int, words: str) -> Row:
        return Row(f"{kind}-{number}", f"a hit, {words}", "ns", floor="program")

    keys = [
        Point(
            row("keys", count, _counted(count, "key")),
            "@[arg0] = count();",
            {"keys": count},
            spread_over(map(str, range(count)), hits),
        )
        for count in KEYS
        if count <= setting.most
    ]
    threads = [
        Point(
            row("threads", count, _counted(count, "thread")),
            "@ = count();",
            {"threads": count},
            {"": hits // count * count},
        )
        for count in THREADS
    ]
    lengths = [
        Point(
            row("length", length, f"a string of {length:,} bytes as key"),
            "@[str(arg1)] = count();",
            {"length": length},
            spread_over((name.ljust(length, "x") for name in NAMES), hits),
            # With the end of the string.
            {"BPFTRACE_STRLEN": str(length + 1), "BPFTRACE_MAX_STRLEN": str(length + 1)},
        )
        for length in LENGTHS
        if length <= setting.most
    ]
    return [*keys, *threads, *lengths]


def _ask(setting: Setting, point: Point, one: Speaker) -> Reading:
    subjects = setting.subjects
    command = subjects.command("ut", setting.hits, **point.words)
    ran = traced(setting, one, f"{subjects.usdt} {{ {point.body} }}", command, point.environment)
    return Reading({point.row.key: spent(setting).ns}, differs(entries(ran.out), point.expected, lost(ran.err)))


def _attach(setting: Setting, patience: Patience, key: str, count: int, one: Speaker) -> Reading:
    ran = _many(setting, patience, count, 1, one)
    return Reading({key: ran.seconds * 1e3}, differs(entries(ran.out), {"": count}))


def _spread(setting: Setting, patience: Patience, key: str, count: int, one: Speaker) -> Reading:
    rounds = max(setting.hits // count, 1)
    ran = _many(setting, patience, count, rounds, one)
    return Reading({key: spent(setting).ns}, differs(entries(ran.out), {"": rounds * count}))


def _many(setting: Setting, patience: Patience, count: int, rounds: int, one: Speaker) -> Ran:
    patience.ask(one.name, count)
    program = setting.subjects.many(count)
    command = [str(program), str(rounds), str(setting.subjects.result)]
    ran = traced(setting, one, f"uprobe:{program}:site_* {{ @ = count(); }}", command)
    patience.note(one.name, count, ran.seconds)
    return ran


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
