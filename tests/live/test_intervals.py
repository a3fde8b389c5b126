"""Reading and clearing while probes run: each hit falls into exactly one interval."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli import tracer, tracing
from tests.live.answers import maps, records, total

pytestmark = pytest.mark.live

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


def test_intervals_keep_their_beat(backend: str, place: Callable[[str], Path], clean: None) -> None:
    path = place("ticker")
    program = (
        f"usdt:{path}:ticker:tick {{ @hits = count(); }} interval:ms:100 {{ @beats++; }} interval:hz:50 {{ @fast++; }}"
    )
    done = tracer("--backend", backend, "-f", "json", "-e", program, "-c", f"{path} 2 10")
    assert done.status == 0
    found = maps(done)
    assert found["@hits"] == 200
    # The ticks themselves take a little more than 10 ms each.
    assert 19 <= found["@beats"] <= 30
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
