"""Measures what the two probes of a call take: how much of it lies in the call, between them, and how much in all.

A probe is hit on code of our own in a process beside, which is this file (see `kernel.workers.spawn`): a return, or a
`ret`, of a function that begins with an instruction like that of the traced one. The samples say how long such a call
takes by its probes, and the CPU time what it takes in all. What a backend does at the hit beside writing a sample costs
about what the sample does.

Nothing may be taken off that the program itself took. So the shortest of many rounds counts, less a margin, and of the
measurements since the machine has started the lowest: one that is made while the machine is busy is too high.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

if __name__ == "__main__":  # run by its path, isolated
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../../.."))

if TYPE_CHECKING:
    from tracer.kernel.perf import Ring

_ROUNDS, _CALLS = 100, 4
"""As few calls at a time as leave the processor's caches to others in between: the probes of a program that does
something take a tenth more than those of one that does nothing else.
"""
_PATIENCE_S = 5.0
_KEPT_S = 3600
_SURE, _UNSURE_NS = 15 / 16, 300
"""Of the shortest round what no hit of a traced program undercuts; outside of the probes' samples it is less by as much
as backends may take the time later or earlier than a sample does.
"""
_SAMPLE_TYPE = 1 << 1 | 1 << 2 | 1 << 10  # TID, TIME, RAW
_TIME, _TIME_AT = struct.Struct("<Q"), 8

Cost = tuple[int, int, int]
"""Nanoseconds: what two probes take of the call between them, what the one at the entry takes in all, and the one at
the end.
"""


def costs(pairs: Sequence[tuple[str, bool]]) -> list[Cost]:
    """Those of an entry whose instruction is like one (`hit_cost.instruction_like`), and an end at a `ret` or (True) by
    a return probe: as measured in this hour or now, or lower, as before. 0 where they cannot be measured.
    """
    from tracer.cache import key_of, load, store
    from tracer.host.clock import boot_id

    now = int(time.clock_gettime(time.CLOCK_BOOTTIME))
    keys = [key_of("call cost 4", boot_id(), like, str(returns)) for like, returns in pairs]
    earlier = [_unpacked(load("costs", key)) for key in keys]
    due = [number for number, (when, _) in enumerate(earlier) if when // _KEPT_S != now // _KEPT_S]
    lowest = [cost for _, cost in earlier]
    if due:
        for number, cost in zip(due, _measured([pairs[number] for number in due]), strict=False):
            lowest[number] = cost if earlier[number][0] < 0 else min(cost, lowest[number], key=sum)
            store("costs", keys[number], struct.pack("<4q", now, *lowest[number]))
    return lowest


def _unpacked(content: bytes | None) -> tuple[int, Cost]:
    """When a cost was measured last, in s since the machine has started, -1 where it was not, and the cost."""
    if content is None or len(content) != 32:
        return -1, (0, 0, 0)
    when, between, entry, end = struct.unpack("<4q", content)
    return when, (between, entry, end)


def _measured(pairs: Sequence[tuple[str, bool]]) -> list[Cost]:
    """The costs, as many as could be measured, from the first on."""
    from tracer.kernel.workers.spawn import start

    try:
        process = start(__file__)
    except OSError:
        return []
    answer = None
    try:
        process.ask(" ".join(f"{like} {returns:d}" for like, returns in pairs))
        answer = process.answer(_PATIENCE_S)
    finally:
        process.end(wait=False)  # it takes its probes out, which takes longer
    with suppress(ValueError):
        words = [int(word) for word in (answer or "").split()]
        return [(words[first], words[first + 1], words[first + 2]) for first in range(0, len(words) - 2, 3)]
    return []


# --- the process ---


def measure(instruction: str, returns: bool, stack: ExitStack) -> Cost:
    """Raises `OSError` or `ValueError` where the kernel refuses it. What it needs is let go of with `stack`."""
    import ctypes
    import mmap

    from tracer.kernel import perf
    from tracer.kernel.trials.hit_cost import BODY, loop_code
    from tracer.kernel.trials.scratch import Scratch

    if os.uname().machine != "x86_64":
        raise ValueError("this is not x86-64")
    code = bytes.fromhex(instruction)
    scratch = stack.enter_context(Scratch(loop_code(code)))
    call = ctypes.CFUNCTYPE(None, ctypes.c_int)(scratch.address)

    def taken() -> float:  # by the clock, as the samples are: so a round that was interrupted is long by both
        begun = time.monotonic_ns()
        call(_CALLS)
        return (time.monotonic_ns() - begun) / _CALLS

    bare = min(taken() for _ in range(_ROUNDS))
    first = scratch.probe(BODY, False, _SAMPLE_TYPE)
    ring = perf.Ring.over(first, mmap.PAGESIZE * 32)
    try:
        call(5)  # the first hits find pages
        entry = min(_emptied(ring, taken) for _ in range(_ROUNDS)) - bare
        perf.set_output(scratch.probe(BODY + (0 if returns else len(code)), returns, _SAMPLE_TYPE), first)
        call(5)
        between, outside = list[float](), list[float]()
        for _ in range(_ROUNDS):
            whole = _emptied(ring, taken)
            samples = (content for kind, _, content in perf.records(ring.take()) if kind == perf.RECORD_SAMPLE)
            times = [_TIME.unpack_from(content, _TIME_AT)[0] for content in samples]
            inside = [after - before for before, after in zip(times[::2], times[1::2], strict=False)]
            between += inside
            outside.append(whole - sum(inside) / _CALLS)
    finally:
        ring.unmap()
    shortest = min(between, default=0.0) * _SURE
    whole = shortest + max((min(outside) - bare) * _SURE - _UNSURE_NS, 0)
    # What both take in all counts for whoever calls the function, so the two are that together.
    entry = min(entry, whole - 1)
    return round(shortest), max(round(entry), 1), max(round(whole - entry), 1)


def _emptied(ring: Ring, then: Callable[[], float]) -> float:
    ring.take()
    return then()


def main() -> None:
    """Answers one question."""
    os.closerange(3, 1 << 16)
    words = sys.stdin.readline().split()
    answers: list[str] = []
    with ExitStack() as stack:
        for instruction, returns in zip(words[::2], words[1::2], strict=True):
            try:
                answers += map(str, measure(instruction, returns == "1", stack))
            except (OSError, ValueError):
                answers += ["0", "0", "0"]
        with suppress(BrokenPipeError):
            os.write(1, " ".join(answers).encode())


if __name__ == "__main__":
    main()
