"""Reading and clearing while probes run: each hit falls into exactly one interval."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer, tracing
from tests.live.answers import maps, records, total

pytestmark = [pytest.mark.live, pytest.mark.clock]

THREADS, HITS = 2, 100_000


def test_each_hit_falls_into_exactly_one_interval(
    backend: str, place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    path = place("threads")
    program = (
        f"usdt:{path}:threads:hit {{ @ = count(); @k[arg0] = sum(arg1); @h = hist(arg1); }}"
        " interval:ms:20 { print(@); clear(@); print(@k); clear(@k); print(@h); clear(@h); }"
    )
    with tracing(
        tmp_path, "--backend", backend, "-f", "json", "-e", program, "-c", f"{path} {THREADS} {HITS}", ready=None
    ) as running:
        done = running.wait()
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    counts = [record["data"]["@"] for record in records(done, "map") if "@" in record["data"]]
    sums = [record["data"]["@k"] for record in records(done, "map") if "@k" in record["data"]]
    bars = [record["data"]["@h"] for record in records(done, "hist")]
    assert sum(counts) == THREADS * HITS
    for thread in ("0", "1"):
        assert sum(each.get(thread, 0) for each in sums) == sum(range(HITS))
    assert sum(map(total, bars)) == THREADS * HITS


def test_what_a_probe_prints_and_clears_is_counted_once(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    path = place("threads")
    program = (
        f"usdt:{path}:threads:hit {{ @ = count(); @k[arg1 % 7] = sum(1);"
        " if (arg1 % 997 == 0) { print(@); clear(@); print(@k); clear(@k); } }"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} {THREADS} {HITS}")
    assert (done.status, done.err) == (0, "Attached 1 probe\n")
    printed = records(done, "map")
    assert sum(record["data"]["@"] for record in printed if "@" in record["data"]) == THREADS * HITS
    assert sum(sum(record["data"]["@k"].values()) for record in printed if "@k" in record["data"]) == THREADS * HITS


def test_each_hit_falls_into_the_interval_of_its_own_time_however_late_the_tracer_is(
    place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    # ftrace alone: BCC aggregates at the hit, so an interval ends there when its handler runs.
    path, period = place("ticker"), 100_000_000
    program = (
        f"usdt:{path}:ticker:tick {{ @n = count(); @first = min(nsecs); @last = max(nsecs); }}"
        ' interval:ms:100 { printf("%lld %lld %lld\\n", (int64)@n, (int64)@first, (int64)@last);'
        " clear(@n); clear(@first); clear(@last); }"
    )
    with tracing(tmp_path, "--backend", "ftrace", "-e", program, "-c", f"{path} 1.5 1") as running:
        time.sleep(0.3)
        running.signal(signal.SIGSTOP)
        time.sleep(0.55)
        running.signal(signal.SIGCONT)
        done = running.wait()
    assert (done.status, done.err) == (0, "Attached 2 probes\n")
    lines = [line.split() for line in done.text.splitlines()]
    rows = [tuple(map(int, line)) for line in lines if len(line) == 3]
    beats = [(number, *row) for number, row in enumerate(rows) if row[0]]
    # One beat of 100 ms exists between the last hit of each interval and the first of the next.
    latest = max(last - number * period for number, _, _, last in beats)
    earliest = min(first - (number - 1) * period for number, _, first, _ in beats[1:])
    assert latest <= earliest
    assert all(hits <= 100 for _, hits, _, _ in beats)
    assert len(beats) >= 14
    rest = next(int(line[1]) for line in lines if line[0] == "@n:")
    assert sum(row[0] for row in rows) + rest == 1500


def test_no_hit_after_an_intervals_exit_counts_however_late_the_tracer_is(
    place: Callable[[str], Path], tmp_path: Path, clean: None
) -> None:
    # Of the beats that the tracer missed, at 750, 900 and 1,500 ms, the second ends the trace.
    path = place("ticker")
    program = (
        f"usdt:{path}:ticker:tick {{ @n = count(); @last = max(nsecs); }}"
        " interval:ms:900 { exit(); } interval:ms:750 { @beats++; @before = (uint64)@last; }"
    )
    with tracing(tmp_path, "--backend", "ftrace", "-f", "json", "-e", program, "-c", f"{path} 3 1") as running:
        time.sleep(0.1)
        running.signal(signal.SIGSTOP)
        time.sleep(2)
        running.signal(signal.SIGCONT)
        done = running.wait()
    assert (done.status, done.err) == (0, "Attached 3 probes\n")
    found = maps(done)
    assert found["@beats"] == 1
    assert 0 <= found["@last"] - found["@before"] < 400_000_000


def test_intervals_keep_their_beat(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("ticker")
    program = (
        f"usdt:{path}:ticker:tick {{ @hits = count(); @first = min(nsecs); @last = max(nsecs); }}"
        " interval:ms:100 { @beats++; } interval:hz:50 { @fast++; }"
    )
    begun = time.monotonic()
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 2 10")
    whole = time.monotonic() - begun
    assert done.status == 0
    found = maps(done)
    assert found["@hits"] == 200
    # Those that were due when the tracer saw the end need not come.
    assert 0.8 * (found["@last"] - found["@first"]) / 1e8 <= found["@beats"] <= whole * 10
    assert 5 * found["@beats"] - 5 <= found["@fast"] <= 5 * found["@beats"] + 5


def test_aggregations_of_user_space_and_of_probes_are_merged(
    backend: str, place: Callable[[str], Path], clean: None
) -> None:
    # User space adds to the same maps while the probes do: neither overwrites the other.
    path = place("threads")
    program = (
        f"BEGIN {{ @c = count(); @s[0] = sum(1000000); @h = hist(5); @m = max(7); @n = 10; }}"
        f" usdt:{path}:threads:hit {{ @c = count(); @s[arg0] = sum(1); @h = hist(arg1); @m = max(arg1); @n++; }}"
        " interval:us:500 { @i++; @s[1] = sum(1); @n += 1; }"
        " END { @c = count(); @s[0] = sum(1000000); @n -= @i; }"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} {THREADS} {HITS}")
    assert (done.status, done.err) == (0, "Attached 4 probes\n")
    found = maps(done)
    beats = found["@i"]
    assert beats > 0
    assert found["@c"] == THREADS * HITS + 2
    assert found["@s"] == {"0": HITS + 2_000_000, "1": HITS + beats}
    assert total(found["@h"]) == THREADS * HITS + 1
    assert (found["@m"], found["@n"]) == (HITS - 1, THREADS * HITS + 10)
