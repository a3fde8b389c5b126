"""Whether what was printed is what was hit, and whether every loss was told."""

from __future__ import annotations

import re
import zlib
from functools import cache

from scripts.benchmark.answers import NAMES, lost
from scripts.benchmark.children import Ran
from scripts.benchmark.model import Reading

# The number and the string as printf or trace print them, and as an event of ftrace shows them.
_LINE = re.compile(rb'(\d+) (?:s=")?(?:alpha|beta|gamma|delta)"?$', re.MULTILINE)


def judged(ran: Ran, hits: int, seconds: float) -> Reading:
    """The result of a run that printed `NUMBER NAME` for each hit."""
    there, is_exact = received(ran.out, hits)
    told = lost(ran.err) + lost(ran.out)
    silent = hits - there - told
    faults = []
    if silent > 0:
        faults.append(f"{silent:,} of {hits:,} lost and not told")
    elif silent < 0:
        faults.append(f"{-silent:,} told as lost that are there")
    elif there == hits and not is_exact:
        faults.append("all lines there, but not as they were hit")
    share = 100 / hits
    return Reading(
        {
            "printf": seconds * 1e3,
            "printf-there": there * share,
            "printf-silent": max(silent, 0) * share,
            "printf-whole": 1.0 if there == hits and is_exact else 0.0,
        },
        tuple(faults),
    )


def received(out: bytes, hits: int) -> tuple[int, bool]:
    """Counts the lines that came, and says whether they are those of all hits in their order."""
    start = out.find(b"0 alpha\n")
    if start >= 0 and zlib.crc32(out[start:].rstrip(b"\n") + b"\n") == _sum_of_all(hits):
        return hits, True
    count, in_order = 0, True
    for line in _LINE.finditer(out):  # no list: ours would be the largest process
        in_order = in_order and int(line[1]) == count
        count += 1
    return count, in_order and count == hits


@cache
def _sum_of_all(hits: int) -> int:
    total = 0
    for first in range(0, hits, 10_000):
        numbers = range(first, min(first + 10_000, hits))
        total = zlib.crc32("".join(f"{number} {NAMES[number & 3]}\n" for number in numbers).encode(), total)
    return total
