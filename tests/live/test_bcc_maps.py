"""Maps in the kernel: every hit is in them once, whatever the threads, the clears and the sizes."""

from __future__ import annotations

import subprocess
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from tests.live.bcc import build_hits, edge, open_session, trace
from tracer.lang.aggregations.buckets import linear_bucket, log2_bucket
from tracer.results.events import Loss
from tracer.results.values import Average, Key, MapValue

pytestmark = pytest.mark.live

N = 3 * 320  # three times around the edges


@pytest.fixture(scope="module")
def hits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hits(tmp_path_factory.mktemp("hits"))


def test_histograms_put_every_edge_where_results_buckets_puts_it(hits: Path) -> None:
    traced = trace(
        f"usdt:{hits}:hits:value {{ @h = hist(arg2); @h3 = hist(arg2, 3); @h5[arg0] = hist(arg2, 5); "
        "@l = lhist((int64)arg2, -10, 1000, 10); }",
        [hits, "values", "1", str(N)],
    )
    values = [edge(i) for i in range(N)]
    assert traced.maps == {
        "@h": {(): dict(Counter(log2_bucket(value, 0) for value in values))},
        "@h3": {(): dict(Counter(log2_bucket(value, 3) for value in values))},
        "@h5": {(0,): dict(Counter(log2_bucket(value, 5) for value in values))},
        "@l": {(): dict(Counter(linear_bucket(value, -10, 1000, 10) for value in values))},
    }
    assert traced.loss == Loss()


def test_aggregations_of_signed_and_unsigned_values(hits: Path) -> None:
    traced = trace(
        f"usdt:{hits}:hits:value {{ @c[(int64)arg2] = count(); @s = sum((int64)arg2); @us = sum((uint64)arg2); "
        "@lo = min((int64)arg2); @ulo = min((uint64)arg2); @hi = max((int64)arg2); @uhi = max((uint64)arg2); "
        "@a[arg0] = stats((int64)arg2); }",
        [hits, "values", "2", str(N)],
    )
    values = [edge(i) for i in range(N)] * 2
    unsigned = [value % 2**64 for value in values]
    total = (sum(values) + 2**63) % 2**64 - 2**63
    half = (sum(values[:N]) + 2**63) % 2**64 - 2**63
    assert traced.maps == {
        "@c": {(value,): count for value, count in Counter(values).items()},
        "@s": {(): total},
        "@us": {(): sum(unsigned) % 2**64},
        "@lo": {(): min(values)},
        "@ulo": {(): min(unsigned)},
        "@hi": {(): max(values)},
        "@uhi": {(): max(unsigned)},
        "@a": {(0,): Average(N, half), (1,): Average(N, half)},
    }


def test_a_map_that_probes_read_is_exact_too(hits: Path) -> None:
    traced = trace(
        f"usdt:{hits}:hits:value {{ @n++; @c[arg0] = count(); @s = sum(arg1); $old = @k[arg1 % 3]++; "
        "if (@n >= 1 && (int64)@c[arg0] >= 1 && (int64)@s >= 0) { @seen[$old >= 0] = count(); } }",
        [hits, "values", "4", "20000"],
    )
    assert traced.maps["@n"] == {(): 80000}
    assert traced.maps["@c"] == {(thread,): 20000 for thread in range(4)}
    assert traced.maps["@k"] == {(0,): 4 * 6667, (1,): 4 * 6667, (2,): 4 * 6666}
    assert traced.maps["@s"] == {(): 4 * sum(range(20000))}
    assert sum(v for v in traced.maps["@seen"].values() if isinstance(v, int)) == 80000


def test_clears_in_the_middle_lose_no_hit(hits: Path) -> None:
    """Each hit is in exactly one interval: the readings that were cleared add up to all hits."""
    threads, each = 4, 150_000
    program = (
        f"usdt:{hits}:hits:value {{ @n++; @s += arg1; @c[arg0] = count(); @h = hist(arg1); @hk[arg0] = hist(arg1); "
        "@m[arg0] = max(arg1); @a[arg0, arg1 % 7] = avg(arg1); @u = min(arg1); } "
        "interval:s:9 { clear(@n); clear(@s); clear(@c); clear(@h); clear(@hk); clear(@m); clear(@a); clear(@u); }"
    )
    names = ("@n", "@s", "@c", "@h", "@hk", "@m", "@a", "@u")
    readings: dict[str, list[dict[Key, MapValue]]] = {name: [] for name in names}
    with open_session(program) as session:
        session.attach()
        child = subprocess.Popen([hits, "values", str(threads), str(each)])
        last = False
        while not last:
            last = child.poll() is not None
            if last:
                session.detach()
            session.maps.begin_handler()
            for name in names:
                readings[name].append(dict(session.maps.snapshot(name).items))
                session.maps.clear(name)
                assert session.maps.snapshot(name).items == {}
            session.maps.end_handler()
            time.sleep(0.005)
        assert session.loss() == Loss()
    assert sum(map(bool, readings["@n"])) > 1, "all hits came within one interval"
    everything = threads * each
    one_sum = sum(range(each))

    def numbers(name: str) -> list[int]:
        return [value for reading in readings[name] for value in reading.values() if isinstance(value, int)]

    assert sum(numbers("@n")) == everything
    assert sum(numbers("@s")) == threads * one_sum
    per_thread: Counter[int] = Counter()
    for reading in readings["@c"]:
        for key, count in reading.items():
            assert isinstance(key[0], int) and isinstance(count, int)
            per_thread[key[0]] += count
    assert per_thread == dict.fromkeys(range(threads), each)
    for name, keys in (("@h", 1), ("@hk", threads)):
        buckets: Counter[int] = Counter()
        for reading in readings[name]:
            for counts in reading.values():
                assert isinstance(counts, dict)
                buckets.update(counts)
        assert buckets == {
            bucket: count * threads for bucket, count in Counter(log2_bucket(v, 0) for v in range(each)).items()
        }, keys
    averages = [value for reading in readings["@a"] for value in reading.values() if isinstance(value, Average)]
    assert sum(value.hits for value in averages) == everything
    assert sum(value.total for value in averages) == threads * one_sum
    assert max(numbers("@m")) == each - 1
    assert min(numbers("@u")) == 0


def test_keys_of_cleared_readings_make_room_for_new_ones(hits: Path) -> None:
    """A thousand keys in each interval, in a map for two thousand, for longer than it has room."""
    program = (
        f"config = {{ max_map_keys = 2000 }} usdt:{hits}:hits:name {{ @[arg1] = count(); }} "
        "interval:s:9 { clear(@); }"
    )
    seen = 0
    with open_session(program) as session:
        session.attach()
        for _ in range(12):
            # arg1 runs from 0 to 999 each time, so each run's keys are new to the generation.
            subprocess.run([hits, "names", "1000", "1"], check=True)
            session.maps.begin_handler()
            reading = session.maps.snapshot("@").items
            assert len(reading) == 1000
            seen += sum(value for value in reading.values() if isinstance(value, int))
            session.maps.clear("@")
            session.maps.end_handler()
            time.sleep(0.06)
        assert session.loss() == Loss()
    assert seen == 12_000


def test_keys_that_find_the_map_full_are_counted(hits: Path) -> None:
    traced = trace(
        f"config = {{ max_map_keys = 100 }} usdt:{hits}:hits:name {{ @c[arg1 % 150] = count(); "
        "@s[arg1 % 150] = nsecs; }",
        [hits, "names", "300", "1"],
    )
    assert (len(traced.maps["@c"]), len(traced.maps["@s"])) == (100, 100)
    assert set(traced.maps["@c"].values()) == {2}
    assert traced.loss == Loss(keys=2 * 100, full=frozenset({"@c", "@s"}))


def test_short_and_long_strings_are_one_map(hits: Path) -> None:
    kinds, each = 60, 50
    traced = trace(
        f"usdt:{hits}:hits:name {{ @c[str(arg0)] = count(); @two[str(arg0), arg1 % 2] = count(); "
        "@last[str(arg0)] = arg1; @h[str(arg0)] = hist(arg1 % 4); @n[str(arg0)]++; }",
        [hits, "names", str(kinds * each), str(kinds)],
    )
    texts = []
    for kind in range(kinds):
        length = 8 + kind * 7 % 193
        texts.append((b"%06d-" % kind).ljust(length, bytes([ord("a") + kind % 26]))[:length])
    assert {len(text) < 64 for text in texts} == {True, False}
    assert traced.maps["@c"] == {(text,): each for text in texts} == traced.maps["@n"]
    assert traced.maps["@two"] == {(text, kind % 2): each for kind, text in enumerate(texts)}
    assert traced.maps["@last"] == {(text,): kinds * (each - 1) + kind for kind, text in enumerate(texts)}
    assert traced.loss == Loss()


def test_what_user_space_adds_is_merged_and_what_it_sets_is_seen_by_probes(hits: Path) -> None:
    program = (
        f"usdt:{hits}:hits:value {{ @n++; @c[arg0] = count(); @m = max(arg1); @h = hist(arg1); @copy = @limit; "
        "if (@limit > 5) { @over++; } if (len(@t) > 1) { @full++; } @t[arg0] = arg1; } begin { @limit = 0; }"
    )
    with open_session(program) as session:
        maps = session.maps
        maps.set("@n", (), 1000)
        maps.aggregate("@c", (0,), "count", 0)
        maps.aggregate("@m", (), "max", 10**6)
        maps.aggregate("@h", (), "hist", 0)
        maps.set("@limit", (), 6)
        maps.set("@t", (77,), 1)
        session.attach()
        subprocess.run([hits, "values", "1", "10"], check=True)
        session.detach()
        found = {name: dict(maps.snapshot(name).items) for name in session.plan.program.maps}
    assert found == {
        "@n": {(): 1010},
        "@c": {(0,): 11},
        "@m": {(): 10**6},
        "@h": {(): {1: 2, 2: 1, 3: 2, 4: 4, 5: 2}},
        "@copy": {(): 6},
        "@limit": {(): 6},
        "@over": {(): 10},
        "@full": {(): 9},
        "@t": {(77,): 1, (0,): 9},
    }


def test_deleting_zeroing_and_setting_from_user_space(hits: Path) -> None:
    program = (
        f"usdt:{hits}:hits:value {{ @n++; @c[arg1] = count(); @m[arg1] = min(arg1 + 5); @t[arg1] = arg1; @z[arg1] = "
        "sum(arg1); @h = hist(arg1); } interval:s:9 { zero(@z); zero(@h); zero(@t); zero(@m); }"
    )
    with open_session(program) as session:
        maps = session.maps
        session.attach()

        def hit() -> None:
            subprocess.run([hits, "values", "1", "3"], check=True)

        hit()
        maps.begin_handler()
        for name in ("@c", "@m", "@t"):
            maps.delete(name, (1,))
        for name in ("@z", "@h"):
            maps.zero(name)
        maps.set("@n", (), 100)
        assert maps.get("@n", ()) == 100
        maps.end_handler()
        first = {name: dict(maps.snapshot(name).items) for name in session.plan.program.maps}
        hit()
        maps.zero("@t")
        maps.zero("@m")
        second = {name: dict(maps.snapshot(name).items) for name in session.plan.program.maps}
    assert first == {
        "@n": {(): 100},
        "@c": {(0,): 1, (2,): 1},
        "@m": {(0,): 5, (2,): 7},
        "@t": {(0,): 0, (2,): 2},
        "@z": {(0,): 0, (1,): 0, (2,): 0},
        "@h": {(): {}},
    }
    assert second == {
        "@n": {(): 103},
        "@c": {(0,): 2, (1,): 1, (2,): 2},
        "@m": {(0,): 0, (1,): 0, (2,): 0},
        "@t": {(0,): 0, (1,): 0, (2,): 0},
        "@z": {(0,): 0, (1,): 1, (2,): 2},
        "@h": {(): {1: 1, 2: 1, 3: 1}},
    }


def test_delete_in_a_probe_takes_the_key_away(hits: Path) -> None:
    traced = trace(
        f"usdt:{hits}:hits:value {{ @c[arg1 % 4] = count(); @h[arg1 % 4] = hist(arg1); @x = count(); @s = arg1; "
        "if (arg1 % 4 == 3) { delete(@c, arg1 % 4); delete(@h, arg1 % 4); delete(@x); } "
        "if (arg1 == 19) { delete(@s); } }",
        [hits, "values", "1", "20"],
    )
    assert traced.maps["@c"] == {(0,): 5, (1,): 5, (2,): 5}
    assert sorted(traced.maps["@h"]) == [(0,), (1,), (2,)]
    assert traced.maps["@x"] == {} == traced.maps["@s"]


def test_many_prints_of_what_was_cleared_take_few_readings(hits: Path) -> None:
    program = f"usdt:{hits}:hits:value {{ @c[arg1 % 5] = count(); if (arg1 % 100 == 99) {{ print(@c); clear(@c); }} }}"
    total = prints = 0
    with open_session(program) as session:
        session.attach()
        subprocess.run([hits, "values", "2", "20000"], check=True)
        session.detach()
        start = time.process_time()  # others may have the CPU meanwhile
        for _ in session.drain():
            prints += 1
            total += sum(value for value in session.maps.snapshot("@c").items.values() if isinstance(value, int))
        assert time.process_time() - start < 1
        session.maps.end_handler()
        total += sum(value for value in session.maps.snapshot("@c").items.values() if isinstance(value, int))
        assert session.loss() == Loss()
    assert (prints, total) == (400, 40_000)


def test_clearing_for_ever_takes_no_memory(hits: Path) -> None:
    program = (
        f"usdt:{hits}:hits:name {{ @c[arg1] = count(); @s[arg1] = nsecs; @m[arg1] = max(arg1); }}"
        " interval:s:9 { clear(@c); clear(@s); clear(@m); }"
    )

    def clear(times: int) -> int:
        for _ in range(times):
            session.maps.begin_handler()
            for name in ("@c", "@s", "@m"):
                session.maps.clear(name)
            session.maps.end_handler()
        return tracemalloc.get_traced_memory()[0]

    with open_session(program) as session:
        session.attach()
        subprocess.run([hits, "names", "100", "1"], check=True)
        time.sleep(0.06)
        tracemalloc.start()
        try:
            before = clear(300)
            grown = clear(1000) - before
        finally:
            tracemalloc.stop()
    # An entry for each clear would take more than a hundred bytes.
    assert grown < 100_000
