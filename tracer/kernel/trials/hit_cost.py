"""Measures what a hit costs the traced program: one trap for each kind of instruction.

Instructions that the kernel emulates cost 0.5 us, others it executes in a page of its own, single-stepped: 10 us
(Linux 6.18). Which are which differs from kernel to kernel, so each kind is tried by a process beside, which is this
file (see `kernel.workers.spawn`) and traps itself some thousand times: placing and removing a breakpoint waits for the
kernel, a tenth of a second or more, and the trace goes on meanwhile. What is done at the hit beside the trap and the
sample, some 10 to 200 ns, is left out.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if __name__ == "__main__":  # run by its path, isolated
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../../.."))

from tracer.dataclass import dataclass

if TYPE_CHECKING:
    import ctypes

    from tracer.kernel.workers.spawn import Worker
    from tracer.kinds.site import FileSite

ASSUMED_NS = 1000.0
"""Where nothing can be measured: no PMU of uprobes (before Linux 4.17), no x86-64."""

_MOST_SITES = 64
"""The most sites of an attach point that are measured, evenly spread."""

_LIKE = (
    (rb"\x66\x2e\x0f\x1f\x84\0{5}", "662e0f1f840000000000"), (rb"\x90", "90"), (rb"\x0f\x1f\x44\0\0", "0f1f440000"),
    (rb"\x66\x90|\x66?\x0f\x1f", "6690"), (rb"\xf3\x0f\x1e\xfa", "f30f1efa"), (rb"\xc3", "c3"),
    (rb"[\xe8\xe9\xeb\x70-\x7f]|\x0f[\x80-\x8f]", "eb00"), (rb"\x41?[\x50-\x57]", "555d"), (b"", "4889f8"),
)  # fmt: skip
"""What stands for an instruction that begins so: itself where it is harmless, else one that kernels treat alike
(arch_uprobe_analyze_insn of x86: nops, branches and pushes can be emulated, the rest is single-stepped). Behind it
stands what undoes it: it must change nothing that the loop needs.
"""

_ROUNDS = 5
_HITS = 200
_ROUND_NS = 4_000_000
"""CPU time of a round where that is more than `_HITS` hits."""

BODY = 64
_RING = 1 << 20


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a hit to the traced program, in nanoseconds: measured, or assumed for the reason `unmeasured`."""

    ns: float
    unmeasured: str = ""


OF_LATER_FILE = Cost(ASSUMED_NS, "its file came while the trace ran")
"""That of an attach point without a site at the start."""

Kind = tuple[str, bool, int]
"""What is tried, in hex digits; whether the probe is a return probe; the sample type of its event, 0 without one."""


def instruction_like(code: bytes) -> str:
    """The instruction to try for one that begins so."""
    return next(like for start, like in _LIKE if re.match(start, code))


class HitCosts:
    """Measures lazily, one kind at a time; `close` ends what is under way."""

    def __init__(self) -> None:
        self._costs: dict[Kind, Cost] = {}
        self._asked: tuple[Kind, Worker] | None = None

    def of(self, sites: Sequence[FileSite], sample_type: int = 0) -> Cost | None:
        """The mean over these sites; None while some of their kinds are being measured."""
        from tracer.kernel.trials.instructions import codes_of

        if self._asked is not None:
            kind, process = self._asked
            if (answer := process.answer()) is None:
                return None
            self.close()
            try:
                self._costs[kind] = Cost(float(answer))
            except ValueError:
                self._costs[kind] = Cost(ASSUMED_NS, answer or "the process that measures it died")
        kinds: list[Kind] = []
        for site in sites[:: -(-len(sites) // _MOST_SITES) or 1]:
            with suppress(OSError):
                kinds += [(instruction_like(code), site.is_return_probe, sample_type) for code in codes_of([site])]
        if not kinds:
            return Cost(ASSUMED_NS, "the file cannot be opened any more")
        for kind in kinds:
            if kind not in self._costs:
                self._ask(kind)
                return None
        costs = [self._costs[kind] for kind in kinds]
        return Cost(sum(cost.ns for cost in costs) / len(costs), next(filter(None, (c.unmeasured for c in costs)), ""))

    def close(self) -> None:
        """Waits for the process, which ends by itself: killed, it could not take its probe out."""
        if self._asked is not None:
            _, process = self._asked
            self._asked = None
            process.end()

    def _ask(self, kind: Kind) -> None:
        from tracer.kernel.workers.spawn import start

        try:
            self._asked = kind, start(__file__)
            self._asked[1].ask(f"{kind[0]} {kind[1]:d} {kind[2]}")
        except OSError as error:
            self._costs[kind] = Cost(ASSUMED_NS, error.strerror or str(error))
            self.close()


# --- the process ---


def loop_code(instruction: bytes) -> bytes:
    """x86-64: a function of an int n that calls another n times; that one, at `BODY`, is the instruction and `ret`."""
    head = b"\x53\x89\xfb"  # push %rbx; mov %edi,%ebx
    tail = b"\xff\xcb\x75\xf7\x5b\xc3"  # dec %ebx; jnz to the call; pop %rbx; ret
    call = b"\xe8" + struct.pack("<i", BODY - len(head) - 5)
    return (head + call + tail).ljust(BODY, b"\x90") + instruction + b"\xc3"


def measure(instruction: str, returns: bool, sample_type: int) -> float:
    """Nanoseconds of CPU time for a hit. Raises `OSError` or `ValueError` where the kernel refuses it."""
    import ctypes
    import mmap

    from tracer.kernel.trials.scratch import Scratch

    if os.uname().machine != "x86_64":
        raise ValueError("this is not x86-64")
    with Scratch(loop_code(bytes.fromhex(instruction))) as scratch:
        call = ctypes.CFUNCTYPE(None, ctypes.c_int)(scratch.address)
        untraced = _time(call, 4 * _HITS)
        event = scratch.probe(BODY, returns, sample_type)
        ring = mmap.mmap(event, mmap.PAGESIZE + _RING) if sample_type else None
        call(10)  # the first hits find pages and optimise the place, where the kernel does
        hits = max(_HITS, min(int(_ROUND_NS / max(_time(call, _HITS), 1)), 10 * _HITS))
        rounds = []
        for _ in range(_ROUNDS):
            if ring is not None:
                ring[1032:1040] = ring[1024:1032]  # all that is written is read
            rounds.append(_time(call, hits))
        return max(sorted(rounds)[_ROUNDS // 2] - untraced, 0.0)


def _time(call: ctypes._FuncPointer, hits: int) -> float:
    start = time.thread_time_ns()
    call(hits)
    return (time.thread_time_ns() - start) / hits


if __name__ == "__main__":
    os.closerange(3, 1 << 16)
    instruction, returns, sample_type = sys.stdin.readline().split()
    answer = ""
    for _ in range(2):  # beside much other work one of some forty fails
        try:
            answer = str(measure(instruction, returns == "1", int(sample_type)))
            break
        except (OSError, ValueError) as error:
            answer = getattr(error, "strerror", None) or str(error)
    with suppress(BrokenPipeError):
        os.write(1, answer.encode())
