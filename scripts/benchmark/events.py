"""Printed events: how long a million take, whether all are there, and whether every loss is told."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from scripts.benchmark.model import Reading, Row, Work
from scripts.benchmark.printed import judged
from scripts.benchmark.setting import Setting, by_all, ended_well, with_tools
from scripts.benchmark.speakers import Speaker
from scripts.benchmark.tools import runs_of_events


def events(setting: Setting) -> list[Work]:
    """Printing an integer and a string, through a pipe."""
    few = replace(setting, events=10)
    work = by_all(setting, "events", rows(setting.events), partial(_print, setting), partial(_print, few))
    return [with_tools(work, *runs_of_events(setting))]


def rows(count: int) -> list[Row]:
    """The rows that a run fills."""
    what = f"{count:,} printf of an int and a string"
    return [
        Row("printf", f"{what}: whole process", "ms"),
        Row("printf-there", f"{what}: lines received", "%", 1),
        Row("printf-silent", f"{what}: lost and not told", "%", 1),
        Row("printf-whole", f"{what}: runs with all there", "runs"),
    ]


def _print(setting: Setting, one: Speaker) -> Reading:
    subjects = setting.subjects
    program = f'{subjects.usdt} {{ printf("%d %s\\n", arg0, str(arg1)); }}'
    ran = ended_well(one.trace(program, setting.timeout_s, subjects.command("ut", setting.events)))
    return judged(ran, setting.events, ran.seconds)
