"""The probes that stand in the kernel: their hits are the program's own, and who holds them is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.cli import tracing
from tests.live.test_later_files import CALLS, call, load, loader, plugins as plugins
from tracer.cli.standing import _object, _row
from tracer.kernel.standing import Holder, Standing
from tracer.kernel.standing.find import standing

pytestmark = pytest.mark.live


def probes(path: Path) -> list[Standing]:
    found, unknown = standing()
    assert unknown == []
    return [each for each in found if each.place.startswith(f"{path}:")]


def test_an_event_of_a_trace_is_told_with_its_hits_and_its_tracer(tmp_path: Path, plugins: list[Path]) -> None:
    text = f"uprobe:{plugins[0]}:plugin_use {{ @ = count(); }}"
    with loader() as process, tracing(tmp_path, "--backend", "ftrace", "-e", text) as trace:
        load(process, plugins[0])
        call(process)
        (found,) = probes(plugins[0])
    assert (found.kind, found.places, found.hits, found.misses) == ("uprobe", 1, CALLS, None)
    assert found.through.startswith(f"tracer_{trace.pid}_")
    assert [holder.pid for holder in found.holders] == [trace.pid]


def test_a_link_is_told_with_its_program_and_the_processes_that_hold_it(tmp_path: Path, plugins: list[Path]) -> None:
    text = f"uretprobe:{plugins[0]}:plugin_use {{ @ = count(); }} uprobe:{plugins[0]}:plugin_* {{ @n = count(); }}"
    with tracing(tmp_path, "--backend", "bcc", "-e", text) as trace:
        found = sorted(probes(plugins[0]), key=lambda each: each.kind)
        assert [(each.kind, each.places, each.misses) for each in found] == [("uprobe", 2, 0), ("uretprobe", 1, 0)]
        for each in found:
            assert each.through.startswith("BPF program ")
            assert [holder.name for holder in each.holders] == ["python", "uprobe-undo"]
            assert each.holders[0].pid == trace.pid
    assert probes(plugins[0]) == []


def test_what_is_not_known_is_a_dash_and_null() -> None:
    linked = Standing("uprobe", "/bin/x:0x10", 3, "BPF program 7 (f)", None, 0, (Holder(42, "python"),))
    assert _row(linked) == ("-", "0", "uprobe", "/bin/x:0x10 and 2 more", "BPF program 7 (f)", "42 (python)")
    event = Standing("perf", "", 4, "perf events", None, None, ())
    assert _row(event) == ("-", "-", "perf", "4 descriptors", "perf events", "-")
    assert _object(event) == {
        "kind": "perf", "place": "", "places": 4, "through": "perf events", "hits": None, "misses": None, "held_by": [],
    }  # fmt: skip
