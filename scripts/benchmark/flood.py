"""Many hits of many threads while others want the CPU: how many are lost."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from scripts.benchmark.answers import entries, lost
from scripts.benchmark.children import child
from scripts.benchmark.model import Reading, Row, Work
from scripts.benchmark.setting import Setting, by_all, ended_well
from scripts.benchmark.speakers import Speaker

_THREADS = 4
_LOOPS = 2
_PRINTED = re.compile(rb"^\d+ (?:alpha|beta|gamma|delta)$", re.MULTILINE)
Count = Callable[[bytes], int]


def flood(setting: Setting) -> list[Work]:
    """Aggregating and printing beside loops that never sleep."""
    sums = "{ @n = count(); @s[str(arg1)] = sum(arg0); @h = hist(arg0); }"
    lines = r'{ printf("%d %s\n", arg0, str(arg1)); }'
    return [
        _of(setting, "flood-sums", sums, setting.events, lambda out: entries(out).get("", 0)),
        _of(setting, "flood-lines", lines, setting.events * 3 // 10, lambda out: len(_PRINTED.findall(out))),
    ]


def _of(setting: Setting, key: str, body: str, hits: int, count: Count) -> Work:
    what = f"{hits:,} hits by {_THREADS} threads beside {_LOOPS} busy loops, {body}"
    rows = [Row(key, f"{what}: lost", "%", 1), Row(f"{key}-whole", f"{what}: runs with all there", "runs")]
    few = partial(_ask, setting, key, body, 2 * _THREADS, count)
    return by_all(setting, "flood", rows, partial(_ask, setting, key, body, hits, count), few)


def _ask(setting: Setting, key: str, body: str, hits: int, count: Count, one: Speaker) -> Reading:
    subjects = setting.subjects
    with ExitStack() as stack:
        for _ in range(_LOOPS):
            stack.enter_context(child([sys.executable, "-I", "-S", "-c", "while True: pass"], is_endless=True))
        command = subjects.command("ut", hits, _THREADS)
        ran = ended_well(one.trace(f"{subjects.usdt} {body}", setting.timeout_s, command))
    there, told = count(ran.out), lost(ran.err) + lost(ran.out)
    silent = hits - there - told
    faults = (f"{silent:,} of {hits:,} lost and not told",) if silent > 0 else ()
    return Reading({key: 100 * (hits - there) / hits, f"{key}-whole": float(there == hits)}, faults)
