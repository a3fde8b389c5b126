r"""The process that measures what the kernel takes for a uprobe, by the instruction that it is on (see
`kernel.workers.spawn`): it traps itself some thousand times.

Instructions that the kernel emulates cost 0.5 us, others it executes in a page of its own, single-stepped: 10 us
(Linux 6.18). Which are which differs from kernel to kernel, so each kind is tried.

It reads one line of JSON, a list of `cost.Kind`, and answers with one: the nanoseconds of CPU time for each kind, or
why it cannot be measured.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import struct
import sys
import time
from contextlib import suppress

_ROUNDS = 5
_HITS = 200
_ROUND_NS = 4_000_000
"""CPU time of a round where that is more than `_HITS` hits."""

_BODY = 64
_RING = 1 << 20

# Executed on its own each must change nothing that the loop needs: what undoes it.
_UNDO = {"55": "5d"}


def loop_code(instruction: bytes, undo: bytes) -> bytes:
    """x86-64: a function of an int n that calls another n times; that one, at `_BODY`, is the instruction and `ret`."""
    head = b"\x53\x89\xfb"  # push %rbx; mov %edi,%ebx
    tail = b"\xff\xcb\x75\xf7\x5b\xc3"  # dec %ebx; jnz to the call; pop %rbx; ret
    call = b"\xe8" + struct.pack("<i", _BODY - len(head) - 5)
    return (head + call + tail).ljust(_BODY, b"\x90") + instruction + undo + b"\xc3"


def measure(instruction: str, returns: bool, sample_type: int) -> float:
    """Nanoseconds of CPU time for a hit. Raises `OSError` or `ValueError` where the kernel refuses it."""
    from tracer.kernel.trials.scratch import Scratch  # found once `main` has begun

    if os.uname().machine != "x86_64":
        raise ValueError("this is not x86-64")
    with Scratch(loop_code(bytes.fromhex(instruction), bytes.fromhex(_UNDO.get(instruction, "")))) as scratch:
        call = ctypes.CFUNCTYPE(None, ctypes.c_int)(scratch.address)
        untraced = _time(call, 4 * _HITS) / (4 * _HITS)
        event = scratch.probe(_BODY, returns, sample_type)
        ring = mmap.mmap(event, mmap.PAGESIZE + _RING) if sample_type else None
        call(10)  # the first hits find pages and optimise the place, where the kernel does
        hits = max(_HITS, min(int(_HITS * _ROUND_NS / max(_time(call, _HITS), 1)), 10 * _HITS))
        rounds = []
        for _ in range(_ROUNDS):
            if _nobody_waits():
                break
            if ring is not None:
                ring[1032:1040] = ring[1024:1032]  # all that is written is read
            rounds.append(_time(call, hits) / hits)
        return max(sorted(rounds)[len(rounds) // 2] - untraced, 0.0) if rounds else 0.0


def _time(call: ctypes._FuncPointer, hits: int) -> int:
    start = time.thread_time_ns()
    call(hits)
    return time.thread_time_ns() - start


def _nobody_waits() -> bool:
    """Whether the tracer has closed its end: it does not kill this process, which could not take its probe out then."""
    poll = select.poll()
    poll.register(1, 0)
    return bool(poll.poll(0))


def main() -> None:
    """Answers one request."""
    answer: list[float | str] = []
    for kind in json.loads(sys.stdin.buffer.readline()):
        if _nobody_waits():
            return
        try:
            answer.append(measure(*kind))
        except (OSError, ValueError) as error:
            answer.append(getattr(error, "strerror", None) or str(error))
    with suppress(BrokenPipeError):
        os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    os.closerange(3, 1 << 16)
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))
    main()
