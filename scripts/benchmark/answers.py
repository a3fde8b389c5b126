"""Whether an answer is right: what speakers and tools print, against what the target did."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

NAMES = ("alpha", "beta", "gamma", "delta")
_ENTRY = re.compile(rb"^@\w*(?:\[(.*)\])?: (-?\d+)\s*$", re.MULTILINE)
_BUCKET = re.compile(rb"^[\[(][^|\n]*[\])]\s+(\d+) \|", re.MULTILINE)
_LOST = re.compile(rb"(?:Possibly lost|Lost) (\d+)|(\d+) (?:events? lost|hits? left out)|LOST (\d+) EVENTS")


def entries(out: bytes) -> dict[str, int]:
    """The entries of maps in text, by key; "" is the key of a map without one."""
    return {(key or b"").decode(errors="replace"): int(value) for key, value in _ENTRY.findall(out)}


def buckets(out: bytes) -> list[int]:
    """The counts of a histogram, from its first bucket on."""
    return [int(count) for count in _BUCKET.findall(out)]


def log2_counts(hits: int) -> list[int]:
    """The buckets that hist() must show for the numbers 0 to `hits` - 1: [0], [1], [2, 4), …"""
    counts = [min(hits, 1)] if hits else []
    low = 1
    while low < hits:
        counts.append(min(hits, 2 * low) - low)
        low *= 2
    return counts


def spread_over(keys: Iterable[str], hits: int) -> dict[str, int]:
    """Counts how often each key comes when hits go through them in turn."""
    names = list(keys)
    return {name: (hits + len(names) - 1 - place) // len(names) for place, name in enumerate(names)}


def differs(counts: Mapping[str, int], expected: Mapping[str, int], told: int = 0) -> tuple[str, ...]:
    """The errors of a map in words; nothing if it is right. `told` are the hits said to be lost."""
    if counts == expected:
        return ()
    if counts == {"": sum(expected.values())} and "" not in expected:
        return ('prints "" for every string',)
    counted, wanted = sum(counts.values()), sum(expected.values())
    if counted != wanted:
        rest = ", and says so" if told and counted + told == wanted else ""
        return (f"counts {counted:,} of {wanted:,}{rest}",)
    return (f"{len(counts):,} keys for {len(expected):,}, or counts exchanged",)


def lost(said: bytes) -> int:
    """Counts the events that are said to be lost, over all such lines of any contestant."""
    return sum(int(next(filter(None, groups))) for groups in _LOST.findall(said))
