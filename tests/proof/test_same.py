"""The C that BCC compiles and the Python of the same steps do the same: output, maps, and the count of every loss.

Random programs over random hits, without root: the C is compiled natively, with a shim for the kernel's helpers and
maps (native.py, shim.c). A part of them is also walked over the typed program, which knows nothing of steps (walk.py).

`TRACER_PROOF=100000` runs so many programs, `TRACER_PROOF_SEED=N` begins at that one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.proof.same import CHUNK, Report, Spoil, check

COUNT = int(os.environ.get("TRACER_PROOF", "20000"))
FIRST = int(os.environ.get("TRACER_PROOF_SEED", "0"))
_CORES = os.cpu_count() or 1


def checked(seeds: Sequence[int], spoil: Spoil | None = None) -> Report:
    """The report on some programs, made on all cores."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    whole, seconds, seen = Report(), Counter[str](), Counter[str]()
    with ProcessPoolExecutor(_CORES, mp_context=get_context("spawn")) as pool:
        for report in pool.map(check, chunks, [spoil] * len(chunks)):
            whole.failures += report.failures
            seconds.update(report.seconds)
            seen.update(report.seen)
    return Report(whole.failures, dict(seconds), dict(seen))


@pytest.mark.timeout(1200)
def test_c_and_python_say_the_same() -> None:
    report = checked(range(FIRST, FIRST + COUNT))
    assert not report.failures, "\n\n".join(report.failures[:5])
    # The programs must do what is compared.
    often = {"events", "maps", "unreadable", "truncated", "loops", "stacks", "keys", "exiting"}
    assert often <= {thing for thing, times in report.seen.items() if times > COUNT / 1000}, report.seen
