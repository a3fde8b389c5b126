"""Strings as they are in the traced process: on cold pages, at the ends of pages, around the sizes of buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.bcc import build_hits, trace
from tracer.results.events import Loss

pytestmark = pytest.mark.live

READABLE = [b"edges", b"over the edge", b""]
LENGTHS = [62, 63, 64, 65, 66, 1022, 1023, 1024, 1025]


@pytest.fixture(scope="module")
def hits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hits(tmp_path_factory.mktemp("hits"))


@pytest.fixture(params=["sleepable", "quick", "locked down"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ways of reading: waiting for pages; without, as before Linux 6.0; and without helpers that copy, as kernel
    lockdown leaves it.
    """
    if request.param == "quick":
        monkeypatch.setenv("TRACER_WITHOUT", "sleepable")
    if request.param == "locked down":
        monkeypatch.setenv("TRACER_WITHOUT", "kernel_reads")
    return str(request.param)


def test_strings_read_right_wherever_they_lie(hits: Path, way: str) -> None:
    traced = trace(
        f"usdt:{hits}:hits:text {{ @[str(arg0)] = count(); @c[str(arg0), 1]++; @last = str(arg0); "
        'printf("%s|%d|%s", str(arg0), strlen(str(arg0)), str(arg0)); }',
        [hits, "strings"],
    )
    texts = READABLE + [b"a" * min(length, 1023) for length in LENGTHS]
    assert traced.printed == [(text, len(text), text) for text in texts]
    keys = dict.fromkeys(((text,) for text in texts), 1) | {(b"a" * 1023,): 3}
    assert traced.maps["@"] == keys
    assert traced.maps["@c"] == {(*key, 1): count for key, count in keys.items()}
    assert traced.maps["@last"] == {(): b"a" * 1023}
    # Two lengths do not fit, and count once, though each string is named six times. The two that cannot be read
    # end their clause.
    assert (traced.loss.truncated, traced.loss.unreadable) == (2, 2)


def test_a_size_that_the_program_gives_is_no_loss(hits: Path, way: str) -> None:
    traced = trace(f"usdt:{hits}:hits:text {{ @[str(arg0, 6)] = count(); }}", [hits, "strings"])
    # The text without an end at the end of its page is long enough.
    assert traced.loss == Loss(unreadable=1)
    assert traced.maps["@"] == {(b"edges",): 1, (b"over ",): 1, (b"xxxxx",): 1, (b"",): 1, (b"aaaaa",): len(LENGTHS)}


def test_a_page_that_was_never_touched_is_waited_for(hits: Path) -> None:
    traced = trace(
        f'usdt:{hits}:hits:text {{ @[str(arg0)] = count(); @b = *(uint8 *)(arg0 + 2); printf("%s", str(arg0)); }}',
        [hits, "cold"],
    )
    assert traced.maps == {"@": {(b"a page nobody touched",): 1}, "@b": {(): ord("p")}}
    assert traced.printed == [(b"a page nobody touched",)]
    assert traced.loss == Loss()


def test_without_waiting_a_cold_page_is_counted_and_never_an_empty_string(
    hits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACER_WITHOUT", "sleepable")
    traced = trace(f"usdt:{hits}:hits:text {{ @[str(arg0)] = count(); }}", [hits, "cold"])
    assert (traced.maps, traced.loss) == ({"@": {}}, Loss(unreadable=1))


def test_strings_that_many_threads_read_at_once_are_not_mixed_up(hits: Path, way: str) -> None:
    """Scratch memory belongs to the invocation, not to the CPU."""
    traced = trace(
        f"usdt:{hits}:hits:name {{ $s = str(arg0); @[$s] = count(); if (strncmp($s, str(arg0), 300) != 0) {{ @bad++; }}"
        ' printf("%s", $s); }',
        ["sh", "-c", " & ".join([f"{hits} names 6000 12"] * 4) + " & wait"],
    )
    assert list(traced.maps["@"].values()) == [2000] * 12
    assert traced.maps["@bad"] == {}
    assert len(traced.printed) == 24_000
    assert {args[0] for args in traced.printed} == {key[0] for key in traced.maps["@"]}
    assert traced.loss == Loss()


def test_comparisons_of_strings(hits: Path, way: str) -> None:
    traced = trace(
        f"usdt:{hits}:hits:text {{ $s = str(arg0); "
        '@["literal", $s == "edges"]++; @["start", strncmp($s, "over it", 5) == 1]++; '
        '@["long", strncmp($s, str(arg0), 1000) == 0]++; @["same", $s == str(arg0)]++; '
        '@["in", strcontains($s, "edge")]++; @kept = $s; @["kept", $s == @kept]++; '
        '@["not", $s != "aa"]++; }',
        [hits, "strings"],
    )
    count = len(READABLE) + len(LENGTHS)
    assert traced.maps["@"] == {
        (b"literal", True): 1,
        (b"literal", False): count - 1,
        (b"start", False): 1,
        (b"start", True): count - 1,
        (b"long", True): count,
        (b"same", True): count,
        (b"in", True): 2,
        (b"in", False): count - 2,
        (b"kept", True): count,
        (b"not", True): count,
    }
