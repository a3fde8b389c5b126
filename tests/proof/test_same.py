"""The C that BCC compiles and the Python of the same steps do the same: output, maps, and the count of every loss.

Random programs over random hits, without root: the C is compiled natively, with a shim for the kernel's helpers and
maps (native.py, shim.c). A part of them is also walked over the typed program, which knows nothing of steps (walk.py).

A sample: `scripts/attack/fuzz` runs as many as it is told, from another one on (TRACER_PROOF, TRACER_PROOF_SEED), and
docs/reliability.md says what came of it.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import partial
from itertools import islice
from multiprocessing import get_context

import pytest

from tests.proof import native
from tests.proof.same import CHUNK, HALVED, WRITTEN, Report, Spoil, check

COUNT = int(os.environ.get("TRACER_PROOF", "2500"))
FIRST = int(os.environ.get("TRACER_PROOF_SEED", "0"))
_CORES = os.cpu_count() or 1
_FEW = 10
"""So many are checked together where the first that fails is all that is wanted."""
_FOUND = 17


FAULTS = {
    "the sign of a remainder": ("return a < 0 ? -rest : rest;", "return rest;"),
    "the bucket of a small number": ("return value + 1;", "return value + (value > 1);"),
    "str() of NULL": ("from ? touch_user_text(to, size, from, size) : 0", "touch_user_text(to, size, from, size)"),
    "a cut that has been told": ("if (length < size || told)", "if (length < size)"),
    "a break out of a walk": ("#define LEFT 2", "#define LEFT 1"),
    "the place in a block": ("[offset + i] << 8 * i", "[i] << 8 * i"),
}
"""Mistakes in bpf_programs: what stands there, and what would be wrong."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Processes on all cores that have imported what all tests need."""
    with ProcessPoolExecutor(_CORES, mp_context=get_context("spawn")) as pool:
        yield pool


def checked(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Report:
    """The report on some programs, made on all cores."""
    whole, seconds, seen = Report(), Counter[str](), Counter[str]()
    for report in pool.map(check, [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]):
        whole.failures += report.failures
        seconds.update(report.seconds)
        seen.update(report.seen)
    return Report(whole.failures, dict(seconds), dict(seen))


def is_found(pool: ProcessPoolExecutor, seeds: Sequence[int], spoil: Spoil) -> bool:
    """Whether one of some programs fails where something is broken. Few are under way when the first does."""
    coming = (seeds[at : at + _FEW] for at in range(0, len(seeds), _FEW))
    running = {pool.submit(fails, each, spoil) for each in islice(coming, _CORES)}
    found = False
    while running:
        done, running = wait(running, return_when=FIRST_COMPLETED)
        found = any(each.result() for each in done) or found
        running |= set() if found else {pool.submit(fails, each, spoil) for each in islice(coming, len(done))}
    return found


def fails(seeds: Sequence[int], spoil: Spoil) -> bool:
    """Whether one of some programs does, in a process that ends with what is broken in it."""
    native.shim()  # once for all of them
    child = os.fork()
    if child == 0:
        try:
            os._exit(_FOUND if check(seeds, spoil).failures else 0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, _FOUND), f"ended with {status}"
    return status == _FOUND


@pytest.mark.timeout(1200)
def test_c_and_python_say_the_same(pool: ProcessPoolExecutor) -> None:
    report = checked(pool, range(FIRST, FIRST + COUNT))
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
def test_a_mistake_is_found(spoil: Spoil, pool: ProcessPoolExecutor) -> None:
    seeds = WRITTEN_SEEDS if spoil is spoil_compound else range(CHUNK, 4000)  # the first chunk's compiler is slow
    assert is_found(pool, seeds, spoil), "nothing was found"
