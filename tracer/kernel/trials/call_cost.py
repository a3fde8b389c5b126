"""Measures what the two probes of a call take: how much of it lies in the call, between them, and how much in all.

A probe is hit on code of our own in a process beside, which is this file (see `kernel.workers.spawn`): a return, or a
`ret`, of a function that begins with an instruction like that of the traced one. The samples say how long such a call
takes by its probes, and the CPU time what it takes in all. What a backend does at the hit beside writing a sample costs
about what the sample does. Of several rounds a short one counts: what other work adds is not taken off.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress

if __name__ == "__main__":  # run by its path, isolated
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../../.."))

_ROUNDS, _CALLS = 100, 4
"""As few calls at a time as leave the processor's caches to others in between: the probes of a program that does
something take a tenth more than those of one that does nothing else.
"""
_PATIENCE_S = 5.0
_KEPT_S = 3600
_SAMPLE_TYPE = 1 << 1 | 1 << 2 | 1 << 10  # TID, TIME, RAW
_TIME_AT = 16

Cost = tuple[int, int, int]
"""Nanoseconds: what two probes take of the call between them, what the one at the entry takes in all, and the one at
the end.
"""


def costs(pairs: Sequence[tuple[str, bool]]) -> list[Cost]:
    """Those of an entry whose instruction is like one (`hit_cost.instruction_like`), and an end at a `ret` or (True) by
    a return probe: as an earlier run of this hour measured them, or now. 0 where they cannot be.
    """
    from tracer.cache import key_of, load, store

    keys = [key_of("call cost 1", _boot(), like, str(returns)) for like, returns in pairs]
    contents = [load("costs", key) for key in keys]
    lacking = [number for number, kept in enumerate(contents) if kept is None]
    if lacking:
        for number, cost in zip(lacking, _measured([pairs[number] for number in lacking]), strict=False):
            content = contents[number] = struct.pack("<3q", *cost)
            store("costs", keys[number], content)
    return [(0, 0, 0) if kept is None or len(kept) != 24 else struct.unpack("<3q", kept) for kept in contents]


def _boot() -> str:
    """The hour of this run of the kernel."""
    import time

    boot = ""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read()
    return f"{boot}{int(time.clock_gettime(time.CLOCK_BOOTTIME)) // _KEPT_S}"


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
    import time

    from tracer.kernel import perf
    from tracer.kernel.trials.hit_cost import BODY, loop_code
    from tracer.kernel.trials.scratch import Scratch

    if os.uname().machine != "x86_64":
        raise ValueError("this is not x86-64")
    code = bytes.fromhex(instruction)
    scratch = stack.enter_context(Scratch(loop_code(code)))
    call = ctypes.CFUNCTYPE(None, ctypes.c_int)(scratch.address)

    def taken() -> float:
        begun = time.thread_time_ns()
        call(_CALLS)
        return (time.thread_time_ns() - begun) / _CALLS

    def short(rounds: list[float]) -> float:
        return sorted(rounds)[len(rounds) // 4]

    bare = short([taken() for _ in range(_ROUNDS)])
    first = scratch.probe(BODY, False, _SAMPLE_TYPE)
    with mmap.mmap(first, mmap.PAGESIZE * 33) as ring:
        call(5)  # the first hits find pages
        entry = short([_emptied(ring, taken) for _ in range(_ROUNDS)]) - bare
        perf.set_output(scratch.probe(BODY + (0 if returns else len(code)), returns, _SAMPLE_TYPE), first)
        call(5)
        between, both = list[float](), list[float]()
        for _ in range(_ROUNDS):
            both.append(_emptied(ring, taken))
            times = list(_times(ring))
            between += [after - before for before, after in zip(times[::2], times[1::2], strict=False)]
    whole = short(both) - bare
    inside = short(between) if between else 0.0
    return max(round(inside - bare), 0), max(round(min(entry, whole)), 1), max(round(whole - entry), 1)


def _emptied(ring: object, then: object) -> float:
    ring[1032:1040] = ring[1024:1032]  # type: ignore[index]  # all that is written is read
    return then()  # type: ignore[operator, no-any-return]


def _times(ring: object) -> Iterator[int]:
    """The times of the samples of a ring that nobody has read."""
    import mmap

    head, position = struct.unpack("<QQ", ring[1024:1040])  # type: ignore[index]
    data = ring[mmap.PAGESIZE :]  # type: ignore[index]
    while position < head:
        start = position % len(data)
        whole = data[start:] + data[:start]
        size = struct.unpack_from("<H", whole, 6)[0]
        if struct.unpack_from("<I", whole)[0] == 9:
            yield struct.unpack_from("<Q", whole, _TIME_AT)[0]
        position += size


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
