"""The C that BCC compiles and the Python of the same steps do the same: output, maps, and the count of every loss.

Random programs over random hits, without root: the C is compiled natively, with a shim for the kernel's helpers and
maps (native.py, shim.c). A part of them is also walked over the typed program, which knows nothing of steps (walk.py).

A sample: `scripts/attack/fuzz` runs as many as it is told, from another one on (TRACER_PROOF, TRACER_PROOF_SEED), and
docs/reliability.md says what came of it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest

from tests.proof import native
from tests.proof.same import CHUNK, HALVED, WRITTEN, Report, Spoil, check

COUNT = int(os.environ.get("TRACER_PROOF", "5000"))
FIRST = int(os.environ.get("TRACER_PROOF_SEED", "0"))
_CORES = os.cpu_count() or 1


FAULTS = {
    "the sign of a remainder": ("return a < 0 ? -rest : rest;", "return rest;"),
    "the bucket of a small number": ("return value + 1;", "return value + (value > 1);"),
    "str() of NULL": ("from ? touch_user_text(to, size, from, size) : 0", "touch_user_text(to, size, from, size)"),
    "a cut that has been told": ("if (length < size || told)", "if (length < size)"),
    "a break out of a walk": ("#define LEFT 2", "#define LEFT 1"),
    "the place in a block": ("[offset + i] << 8 * i", "[i] << 8 * i"),
}
"""Mistakes in bpf_programs: what stands there, and what would be wrong."""


def checked(seeds: Sequence[int], spoil: Spoil | None = None) -> Report:
    """The report on some programs, made on all cores."""
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    whole, seconds, seen = Report(), Counter[str](), Counter[str]()
    with ProcessPoolExecutor(_CORES, mp_context=get_context("spawn")) as pool:
        for report in pool.map(check, chunks, [spoil] * len(chunks)):
            whole.failures += report.failures
            seconds.update(report.seconds)
            seen.update(report.seen)
            if spoil is not None and whole.failures:
                pool.shutdown(cancel_futures=True)
                break
    return Report(whole.failures, dict(seconds), dict(seen))


@pytest.mark.timeout(1200)
def test_c_and_python_say_the_same() -> None:
    report = checked(range(FIRST, FIRST + COUNT))
    assert not report.failures, "\n\n".join(report.failures[:5])
    assert HALVED not in report.seen, "a compiler refuses some, one by one all are compiled by another"
    # The programs must do what is compared.
    often = {"events", "maps", "unreadable", "truncated", "loops", "stacks", "keys", "exiting", "walks", "divisions"}
    assert often <= {thing for thing, times in report.seen.items() if times > COUNT / 1000}, report.seen


def spoil_c(right: str, wrong: str) -> None:
    """Puts a mistake into what all C programs include."""
    native.mistake = right, wrong


def spoil_python() -> None:
    """Lets the Python of steps compare wrongly."""
    from tracer.lang.types.operations import LE

    LE.python = "({0} < {1})"


def spoil_compound() -> None:
    """Lets `+=` move a pointer in a map by bytes."""
    from tracer.lang.check import assignments

    assignments.amount = lambda ctx, of, count: count  # type: ignore[attr-defined]


WRITTEN_SEEDS = range(WRITTEN - 1, 20000, WRITTEN)
"""Those of programs that are made as text."""

SPOILS: dict[str, Spoil] = {
    **{name: partial(spoil_c, *fault) for name, fault in FAULTS.items()},
    "<= in Python": spoil_python,
    "+= of a pointer": spoil_compound,
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_mistake_is_found(spoil: Spoil) -> None:
    seeds = WRITTEN_SEEDS if spoil is spoil_compound else range(4000)
    assert checked(seeds, spoil).failures, "nothing was found"
