"""Counts without events: what only counts its hits opens no ring, whomever it traces."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer
from tests.live.ftrace import finish, gated, items, session
from tracer.results.events import Loss
from tracer.results.values import Key, MapValue

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("clean")]

ROUNDS = 3000
THIRD = ROUNDS // 3
COUNTER = "aggregated in the kernel, by a counter"

CASES: dict[str, tuple[str, dict[str, int]]] = {
    "count": ("usdt:{0}:mixer:round {{ @ = count(); }}", {"@": ROUNDS}),
    "plus plus": ("usdt:{0}:mixer:round {{ @++; }}", {"@": ROUNDS}),
    "plus one": ("usdt:{0}:mixer:round {{ @ += 1; }}", {"@": ROUNDS}),
    "a function": ("uprobe:{0}:wide {{ @ = count(); }}", {"@": ROUNDS}),
    "two maps": ("usdt:{0}:mixer:round {{ @a = count(); @b++; }}", {"@a": ROUNDS, "@b": ROUNDS}),
    "clauses of one map": (
        "usdt:{0}:mixer:round {{ @ ++; }} usdt:{0}:mixer:third {{ @++; }} uretprobe:{0}:wide {{ @++; }}",
        {"@": 2 * ROUNDS + THIRD},
    ),
    "clauses of one place": (
        "usdt:{0}:mixer:round {{ @a = count(); }} usdt:{0}:mixer:round {{ @b++; }}", {"@a": ROUNDS, "@b": ROUNDS},
    ),
    "clauses of one place with filters": (
        "usdt:{0}:mixer:round {{ @a = count(); }} usdt:{0}:mixer:round /arg0 <= 255/ {{ @b++; }}"
        " usdt:{0}:mixer:round /arg2 == 65535 && arg0 == 77/ {{ @a = count(); }}",
        {"@a": ROUNDS, "@b": ROUNDS},
    ),
    "a filter": ('usdt:{0}:mixer:round /arg0 <= 255 && comm == "mixer"/ {{ @ = count(); }}', {"@": ROUNDS}),
    "a filter that lets nothing through": ("usdt:{0}:mixer:round /arg0 > 255/ {{ @n = count(); }}", {}),
}  # fmt: skip


def mapped() -> int:
    """Bytes of perf's rings in this process."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "[perf_event]" in line:
            start, end = line.split()[0].split("-")
            total += int(end, 16) - int(start, 16)
    return total


def run(
    path: Path, text: str, names: set[str], one: bool
) -> tuple[dict[str, dict[Key, MapValue]], tuple[str, ...], int]:
    with (
        gated(path, "1", str(ROUNDS)) as (process, go),
        session(text.format(path), *([process.pid] if one else [])) as opened,
    ):
        size = mapped()
        go()
        finish(opened)
        assert opened.loss() == Loss()
        return {name: items(opened, name) for name in names}, opened.details, size


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("one", [False, True], ids=["every process", "one process"])
def test_what_is_only_counted_needs_no_ring(case: str, one: bool, place: Callable[[str], Path]) -> None:
    text, counts = CASES[case]
    found, details, size = run(place("mixer"), text, set(counts), one)
    assert found == {name: {(): count} for name, count in counts.items()}
    assert [detail.partition(": ")[2] for detail in details] == [COUNTER] * max(len(counts), 1)
    # With one process a ring of one page, in which nothing is ever written, tells of an exec.
    assert size == (2 * mmap.PAGESIZE if one else 0)


def test_what_is_sampled_has_rings(place: Callable[[str], Path]) -> None:
    found, details, size = run(place("mixer"), "usdt:{0}:mixer:round {{ @ = max(arg0); }}", {"@"}, False)
    assert found["@"] == {(): 255}
    assert details[0] == "@: aggregated in user space: the kernel has no max() like this one"
    assert [re.sub("process [0-9]+", "process N", line).partition(",")[0] for line in details[1:]] == [
        "process N empties the buffers"
    ]
    assert size > 1 << 17


def test_the_command_of_c_is_counted_too_and_verbose_says_how(place: Callable[[str], Path]) -> None:
    path = place("threads")
    text = f"usdt:{path}:threads:hit {{ @ = count(); }} usdt:{path}:threads:hit /arg0 == 1/ {{ @one++; }}"
    done = tracer("-v", "--backend", "ftrace", "-e", text, "-c", f"{path} 2 1000")
    assert (done.status, done.text) == (0, "done\n@: 2000\n@one: 1000\n")
    assert done.err == (
        "Attached 2 probes through ftrace, 1 site\n"
        f"tracer: @: {COUNTER}\n"
        f"tracer: @one: {COUNTER}\n"
    )
