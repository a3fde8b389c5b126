"""Ten-byte nops, which newer kernels (seen: 7.2) make into calls once a probe on them is hit: that spares the trap.

Unlike the call of `red_zone` this one harms nobody, since there is room to move the stack pointer first. So a USDT site
`nop; nop10`, as libbpf/usdt's header writes it, is probed at its second nop where a process of our own sees the call;
elsewhere at the first, since 6.18 takes no probe on the second, and says nothing where no process has the file in
memory.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache

if __name__ == "__main__":  # run by its path, isolated
    sys.path.insert(0, os.path.abspath(f"{__file__}/../../../.."))

from tracer.dataclass import replace
from tracer.kernel.trials.red_zone import has_trampolines
from tracer.kinds.site import FileSite, Site
from tracer.resolve.safety.opcodes import NOP10

_PATIENCE_S = 10.0
_FEW = 10


def at_fast_nops(
    sites: Mapping[int, tuple[Site, ...]], places: Sequence[FileSite]
) -> dict[int, tuple[Site, ...]]:
    """The sites of each clause, those of the `places` that have two nops at the second where this kernel makes that a
    call.
    """
    if not calls_nop10():
        return dict(sites)
    moved: dict[int, Site] = {id(site): _at_second(site) for site in places if site.nop10}
    return {clause: tuple([moved.get(id(site), site) for site in of_clause]) for clause, of_clause in sites.items()}


def _at_second(site: FileSite) -> FileSite:
    return replace(site, address=site.address + 1, offset=site.offset + 1, nop10=False)


@lru_cache(maxsize=1)
def calls_nop10() -> bool:
    """Whether a ten-byte nop becomes a call when it is hit, tried by a process beside. False where it cannot tell."""
    if platform.machine() != "x86_64" or not has_trampolines():
        return False
    from tracer.kernel.workers.spawn import agrees  # loaded where such a nop is to be probed

    return agrees(__file__, NOP10.hex(), _PATIENCE_S)


def rewrites(instruction: str) -> bool:
    """Whether the kernel has written something else than a breakpoint over such an instruction once it was hit, and
    counts its hits. Raises `OSError` where it takes no probe there.
    """
    from tracer.kernel import perf
    from tracer.kernel.trials.scratch import Scratch

    before = bytes.fromhex(instruction)
    with Scratch(before + b"\xc3") as scratch:
        event = scratch.probe(0)
        for _ in range(_FEW):
            ctypes.CFUNCTYPE(None)(scratch.address)()
        there = ctypes.string_at(scratch.address, 1)
        return perf.read_count(event)[0] == _FEW and there not in (before[:1], b"\xcc")


if __name__ == "__main__":
    os.closerange(3, 1 << 16)
    try:
        rewritten = rewrites(sys.stdin.readline())
    except OSError:
        rewritten = False
    os.write(1, b"true\n" if rewritten else b"false\n")
