"""scripts/bench, a round of few hits: whether it measures, not what."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cli import PATIENCE, ROOT, until

pytestmark = [pytest.mark.live, pytest.mark.clock, pytest.mark.usefixtures("clean")]

TRACERS = ("tracer bcc", "tracer ftrace")


def bench(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "scripts.benchmark", "--quick", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def measured(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    with bench(tmp_path, "--json", *words) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    rows: list[dict[str, Any]] = json.loads(out)["rows"]
    return rows


def has_figure(row: dict[str, Any], who: str) -> bool:
    cell = row["contestants"].get(who, {})
    return "spread" in cell and cell["spread"]["median"] >= 0


@pytest.mark.timeout(400 * PATIENCE)
def test_every_contestant_that_is_here_has_a_figure_or_a_reason_and_tracer_answers_right(tmp_path: Path) -> None:
    rows = {row["key"]: row for row in measured(tmp_path, "hit", "events", "flood", "sites")}
    assert all(has_figure(rows[key], "floor") for key in ("untraced", "filtered", "program-perf", "program"))
    asked = [row for row in rows.values() if set(TRACERS) & set(row["contestants"])]
    assert {row["key"] for row in asked} == {
        *("empty", "count", "hist", "key", "string", "string-cold", "member", "span", "idiom", "call"),
        *("printf", "printf-there", "printf-silent", "printf-whole"),
        *("flood-sums", "flood-sums-whole", "flood-lines", "flood-lines-whole"),
        *("sites-1", "sites-10", "sites-100"),
    }
    for row in asked:
        for who in TRACERS:
            # Ten sites can take a second while others use the machine; then a hundred are not asked for.
            if not (row["contestants"][who].get("absent") or "").startswith("would take "):
                assert has_figure(row, who), row
            assert row["contestants"][who]["faults"] == [], row
    bpftrace = next((who for who in rows["count"]["contestants"] if who.startswith("bpftrace ")), None)
    assert (bpftrace is not None) == (shutil.which("bpftrace") is not None)
    here = {
        "argdist": (shutil.which("argdist-bpfcc"), "count"),
        "funccount": (shutil.which("funccount-bpfcc"), "count"),
        "trace": (shutil.which("trace-bpfcc"), "printf"),
        "uprobe": (shutil.which("uprobe-perf"), "printf"),
        str(bpftrace): (bpftrace, "hist"),
    }
    for who, (path, key) in here.items():
        cell = rows[key]["contestants"].get(who)
        if path is None:
            assert cell is None or cell["absent"].startswith("not installed: "), cell
        else:  # a tool that cannot do it here has its reason, which is no fault of the benchmark's
            assert has_figure(rows[key], who) or cell["absent"], cell
    # The one is some instructions of a loop, the other a trap into the kernel.
    floor = rows["untraced"]["contestants"]["floor"]["spread"]["median"]
    assert floor < 50 < rows["count"]["contestants"]["tracer bcc"]["spread"]["median"]
    assert not any(tmp_path.iterdir())


@pytest.mark.timeout(200 * PATIENCE)
def test_a_peer_may_be_another_tree_of_tracer(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("tracer", "bpf_programs"):
        (other / name).symlink_to(ROOT / name)
    (row,) = [row for row in measured(tmp_path, "start", "--peer", str(other)) if row["key"] == "count5-cold"]
    assert all(has_figure(row, f"{who} (other)") for who in TRACERS)
    assert "tracer bcc (other) ÷ tracer bcc" in row["ratios"]


def test_a_peer_that_is_neither_is_refused(tmp_path: Path) -> None:
    with bench(tmp_path, "--peer", "/bin/true", "start") as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert err.startswith("bench: /bin/true --version does not answer as bpftrace does: 'true (GNU coreutils) ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.timeout(120 * PATIENCE)
def test_interrupted_it_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with bench(tmp_path, "growth") as process:
        until(lambda: any(tmp_path.glob("tracer-bench.*/result")), 30)  # a first trace is over
        process.send_signal(number)
        out, _ = process.communicate()
    assert (process.returncode, out) == (128 + number, "")
    assert not any(tmp_path.iterdir())
