"""Start-up, and memory: whole processes, for what a short trace waits."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from scripts.benchmark.answers import differs, entries
from scripts.benchmark.children import run
from scripts.benchmark.model import Reading, Row, Work
from scripts.benchmark.setting import Setting, by_all, ended_well, floor
from scripts.benchmark.speakers import Speaker
from scripts.benchmark.together import run_and_weigh

_TYPER = "import typer\napp = typer.Typer()\n@app.command()\ndef main() -> None: ...\napp()\n"
_HITS = 5
_FIVE = "@ = count() with -c 'hits 5'"


def start(setting: Setting) -> list[Work]:
    """The works that take from the start of the process to its end."""
    begin = partial(_begin, setting)
    warm, cold = partial(_five, setting, "count5-warm", False), partial(_five, setting, "count5-cold", True)
    return [
        floor("start", Row("python", "bare Python", "ms"), partial(_process, ["-I", "-S", "-c", ""], setting)),
        floor("start", Row("typer", "an empty Typer program", "ms"), partial(_process, ["-I", "-c", _TYPER], setting)),
        by_all(setting, "start", [Row("begin", "BEGIN { exit(); }", "ms", floor="typer")], begin, begin),
        by_all(setting, "start", [Row("count5-warm", f"{_FIVE}, warm cache", "ms", floor="typer")], warm, warm),
        by_all(setting, "start", [Row("count5-cold", f"{_FIVE}, empty cache", "ms", floor="typer")], cold),
    ]


def memory(setting: Setting) -> list[Work]:
    """The largest process of those that a trace consists of, compilers and the target too; and all at one time."""
    warm, cold = partial(_largest, setting, "memory-warm", False), partial(_largest, setting, "memory-cold", True)
    return [
        by_all(setting, "memory", _memory_rows("memory-warm", "warm"), warm, warm),
        by_all(setting, "memory", _memory_rows("memory-cold", "empty"), cold),
    ]


def _memory_rows(key: str, cache: str) -> list[Row]:
    five = f"{_FIVE}, {cache} cache"
    return [
        Row(key, f"{five}: largest process", "MB"),
        Row(f"{key}-together", f"{five}: all processes together (PSS)", "MB"),
    ]


def _process(words: Sequence[str], setting: Setting) -> float:
    return ended_well(run([sys.executable, *words], setting.timeout_s)).seconds * 1e3


def _begin(setting: Setting, one: Speaker) -> Reading:
    ran = ended_well(one.trace("BEGIN { exit(); }", setting.timeout_s, as_chosen=True))
    return Reading({"begin": ran.seconds * 1e3})


def _five(setting: Setting, key: str, is_cold: bool, one: Speaker) -> Reading:
    with _cache(setting, is_cold) as variables:
        program, command = _asked(setting)
        ran = ended_well(one.trace(program, setting.timeout_s, command, variables, as_chosen=True))
    return Reading({key: ran.seconds * 1e3}, differs(entries(ran.out), {"": _HITS}))


def _largest(setting: Setting, key: str, is_cold: bool, one: Speaker) -> Reading:
    with _cache(setting, is_cold) as variables:
        command = one.asked(*_asked(setting), as_chosen=True)
        ran, largest_kb, together_kb = run_and_weigh(command, setting.timeout_s, one.surroundings(variables))
    ended_well(ran)
    figures = {key: largest_kb / 1024, f"{key}-together": together_kb / 1024}
    return Reading(figures, differs(entries(ran.out), {"": _HITS}))


def _asked(setting: Setting) -> tuple[str, list[str]]:
    return f"{setting.subjects.usdt} {{ @ = count(); }}", setting.subjects.command("ut", _HITS)


@contextmanager
def _cache(setting: Setting, is_cold: bool) -> Iterator[dict[str, str]]:
    """The variables that name an empty cache; none where a contestant's own is warm."""
    if not is_cold:
        yield {}
        return
    with tempfile.TemporaryDirectory(dir=setting.subjects.home) as cache:
        yield {"XDG_CACHE_HOME": cache}
