"""What the overhead guard asks of a session: how often each attach point was hit, and what a hit costs.

Each program counts its hits in an element for each attach point and CPU (`count_hit` of prelude.h). The cost of a hit
is that of the trap, measured beside (`overhead.trap_costs`), and that of the program, as the kernel's own statistics
tell it. These make each run of every BPF program of the machine read the clock twice, some 50 ns. So they are on for a
moment only, and only when the guard asks.
"""

from __future__ import annotations

import os
import struct
import time
from typing import TYPE_CHECKING

from tracer.backends.bcc.loader import HITS, Loaded
from tracer.kernel import bpf
from tracer.overhead.guard import Cost
from tracer.plan.model import Plan
from tracer.plan.points import points

if TYPE_CHECKING:
    from tracer.overhead.trap_costs import TrapCosts

_WINDOW_S = 0.02
"""How long statistics are on at least."""


class PointHits:
    """The attach points of one session."""

    def __init__(self, plan: Plan, loaded: Loaded, cpus: int) -> None:
        self._points = points(plan)
        self._loaded = loaded
        self._cpus = cpus
        self._traps: TrapCosts | None = None
        self._window: tuple[float, int, dict[int, tuple[int, int]]] | None = None

    def hits(self) -> list[int]:
        """Of each attach point so far."""
        size = 8 * self._cpus
        found = []
        for number in range(len(self._points)):
            value = bpf.map_lookup(self._loaded.maps[HITS], struct.pack("=I", number), size) or b""
            found.append(sum(struct.unpack(f"={len(value) // 8}Q", value)))
        return found

    def cost(self, point: int) -> Cost | None:
        """Of a hit; None while it is being measured."""
        if self._traps is None:
            from tracer.overhead.trap_costs import TrapCosts

            self._traps = TrapCosts()
        trap = self._traps.of(self._points[point].sites)
        if trap is None:
            return None  # the program is timed behind it, so that statistics are not on for longer than a moment
        if self._window is None:
            try:
                switch = bpf.enable_stats()
            except OSError:
                return trap
            programs = self._loaded.programs.values()
            self._window = time.monotonic(), switch, {fd: bpf.program_runs(fd) for fd in programs}
            return None
        since, _, before = self._window
        if time.monotonic() - since < _WINDOW_S:
            return None
        own = {fd for (_, number), fd in self._loaded.programs.items() if number == point}
        changes = [(*bpf.program_runs(fd), *before[fd]) for fd in own]
        self.stop_timing()
        runs = sum(now - then for now, _, then, _ in changes)
        taken = sum(now - then for _, now, _, then in changes)
        return Cost(trap.ns + (taken / runs if runs else 0.0), trap.unmeasured)

    def stop_timing(self) -> None:
        """Switches statistics off."""
        if self._window is not None:
            os.close(self._window[1])
            self._window = None

    def close(self) -> None:
        """Ends what is being measured."""
        if self._traps is not None:
            self._traps.close()
        self.stop_timing()


