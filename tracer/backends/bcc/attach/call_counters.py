"""The programs that count calls and returns (`backends.nested_returns`): by hand, so that nothing is compiled."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping

from tracer.backends.bcc.attach.loader import CALLS, HITS, RETURNS, Loaded, first_counter
from tracer.backends.bcc.attach.model import Job
from tracer.backends.nested_returns import counted, is_once
from tracer.kernel import bpf
from tracer.kinds.site import Spot
from tracer.plan.model import Plan
from tracer.plan.points import points

_INSTRUCTION = struct.Struct("=BBhi")


def load_counters(loaded: Loaded, plan: Plan, multi: bool) -> None:
    """Loads those that are needed. Raises `OSError`."""
    if any(counted(plan)):
        for number, key in enumerate((CALLS, RETURNS)):
            if key is CALLS or not is_once(plan):
                loaded.programs[key] = _counter(loaded.maps[HITS], first_counter(plan) + number, multi)


def own_returns(plan: Plan) -> list[int]:
    """The attach points whose hits are all the returns; () where they are counted apart."""
    if not is_once(plan):
        return []
    return [number for number, point in enumerate(points(plan)) if any(s.is_return_probe for s in point.places)]


def _counter(map: int, index: int, multi: bool) -> int:
    """A program that adds one to an element of a per-CPU array of 64-bit numbers. Raises `OSError`."""
    code = (
        (0x62, 10, -4, index),  # *(u32 *)(r10 - 4) = index
        (0xBF, 2 | 10 << 4, 0, 0),  # r2 = r10
        (0x07, 2, 0, -4),  # r2 += -4
        (0x18, 1 | 1 << 4, 0, map),  # r1 = map
        (0x00, 0, 0, 0),
        (0x85, 0, 0, 1),  # r0 = bpf_map_lookup_elem(r1, r2)
        (0x15, 0, 2, 0),  # if r0 == 0 goto out
        (0xB7, 1, 0, 1),  # r1 = 1
        (0xDB, 0 | 1 << 4, 0, 0),  # lock *(u64 *)r0 += r1
        (0xB7, 0, 0, 0),  # out: r0 = 0
        (0x95, 0, 0, 0),  # exit
    )
    packed = b"".join(_INSTRUCTION.pack(*instruction) for instruction in code)
    return bpf.program_load(packed, "count_nested", multi=multi)


def counting(
    plan: Plan, programs: Mapping[tuple[int, int], int], left_out: Collection[Spot]
) -> Iterator[Job]:
    """The jobs of `attachments` that count returns, then those for calls: so a call in between is not counted as
    missed.
    """
    for probe, calls, returns in counted(plan, left_out):
        for key, sites in ((RETURNS, returns), (CALLS, calls)):
            if key in programs and sites:
                yield Job(probe, programs[key], key[1], [(site, 0) for site in sites])
