"""Ten-byte nops, which newer kernels (seen: 7.2) make into calls once a probe on them is hit: that spares the trap.

Unlike the call of `red_zone` this one harms nobody, since there is room to move the stack pointer first. So a USDT site
`nop; nop10`, as libbpf/usdt's header writes it, is probed at its second nop where a process of our own sees the call;
elsewhere at the first, since 6.18 takes no probe on the second, and says nothing where no process has the file in
memory.
"""

from __future__ import annotations

import json
import os
import platform
import select
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from tracer.dataclass import replace
from tracer.kernel.trials.red_zone import has_trampolines
from tracer.resolve.model import Site
from tracer.resolve.safety.safety import NOP10

_PATIENCE_S = 10.0


def at_fast_nops(sites: Mapping[int, tuple[Site, ...]]) -> dict[int, tuple[Site, ...]]:
    """The sites of each clause, those of two nops at the second where this kernel makes that a call."""
    if not calls_nop10():
        return dict(sites)
    return {clause: tuple(_at_second(site) if site.nop10 else site for site in own) for clause, own in sites.items()}


def _at_second(site: Site) -> Site:
    return replace(site, address=site.address + 1, offset=site.offset + 1, nop10=False)


@lru_cache(maxsize=1)
def calls_nop10() -> bool:
    """Whether a ten-byte nop becomes a call when it is hit, tried by a process beside. False where it cannot tell."""
    if platform.machine() != "x86_64" or not has_trampolines():
        return False
    # Loaded where such a nop is to be probed.
    from tracer.kernel.workers.spawn import start
    from tracer.overhead import trap_timer

    try:
        process = start(trap_timer.__file__)
    except OSError:
        return False
    with open(process.back, "rb") as back, suppress(ChildProcessError):  # SIGCHLD is ignored, the kernel has reaped it
        with open(process.to, "wb") as to, suppress(BrokenPipeError):
            to.write(json.dumps({"rewrites": NOP10.hex()}).encode() + b"\n")
        ready, _, _ = select.select([back], [], [], _PATIENCE_S)
        answer = back.readline() if ready else b""
        os.waitpid(process.pid, 0 if ready else os.WNOHANG)
    return answer == b"true\n"
