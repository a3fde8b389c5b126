"""Events of the kernel on the BCC backend: a program at a perf event, which runs at the hits of all processes."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.bcc.attach.model import Attaching, Job, Refused, Work
from tracer.backends.bcc.codegen import c
from tracer.backends.bcc.codegen.function import CFunction
from tracer.kernel import bpf, perf
from tracer.kernel.trials.instructions import Stopped
from tracer.kinds.site import Site
from tracer.lang.types import IntType
from tracer.steps.values import Name

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.kinds.kernel_event import Field, KernelEvent


class _Record:
    """The context of a program at an event: the event's record. See `codegen.function.Context`."""

    struct = "event"
    result = 1
    """With 0 the kernel would let no perf event have the hit, whoever opened it (trace_call_bpf)."""
    stopped = True

    def argument(self, function: CFunction, index: int, name: Name) -> c.C:
        spec = function.variant.args[index]
        field = cast("Field", spec.operand)
        word = c.c_type(name.type)
        if field.beside:
            return c.cast(word, function.declare(name.id, IntType(64, False), c.call("program_abi")))
        if field.held:
            return c.cast(word, c.C(_address(field), "u64"))
        held = c.c_type(IntType(8 * spec.size, spec.signed))
        if field.offset % field.size == 0:
            return c.cast(word, c.C(f"*({held} *)((char *)ctx + {field.offset:d})", held))
        value = function.declare(name.id, IntType(8 * spec.size, spec.signed), "0")
        function.reads_memory = True
        function.leave_unreadable(c.C(f"read_held(&{value}, {spec.size:d}, (u64)ctx + {field.offset:d})"))
        return c.cast(word, value)

    def held_bytes(self, function: CFunction, index: int) -> c.C | None:
        field = cast("Field", function.variant.args[index].operand)
        return c.C(f"(u64)({_located(field)} >> 16)", "u64") if field.located else None


def _address(field: Field) -> str:
    if not field.located:
        return f"(u64)ctx + {field.offset:d}"
    start = f"({_located(field)} & 0xffff)"
    return f"(u64)ctx + {start}" + (f" + {field.offset + 4:d}" if field.from_itself else "")


def _located(field: Field) -> str:
    """Where the bytes are, below their number in the upper half."""
    return f"*(u32 *)((char *)ctx + {field.offset:d})"


class _Attached(Work):
    def __init__(self, attaching: Attaching) -> None:
        super().__init__(attaching)
        self._programs: dict[int, int] = {}
        self._misses = 0
        self._events: list[int] = []

    @property
    def misses(self) -> int:
        """See `Work`."""
        return self._misses + sum(map(bpf.program_misses, self._programs.values()))

    @property
    def idle(self) -> Collection[int]:
        """See `Work`: the links are what runs a program."""
        return self._events if self.attaching.multi else ()

    def close(self) -> None:
        self._misses = self.misses
        for program in self._programs.values():
            os.close(program)
        self._programs.clear()

    def attach(self, job: Job) -> None:
        if job.program not in self._programs:
            self._programs[job.program] = os.dup(job.program)
        watcher, held = self.attaching.watcher, self.attaching.held
        for site, cookie in job.sites:
            if self.attaching.stop():
                raise Stopped
            # Disabled: then nothing is counted besides, and the program runs nevertheless.
            attributes = perf.Attributes(perf.TYPE_TRACEPOINT, cast("KernelEvent", site).number, flags=perf.DISABLED)
            try:
                event = watcher.open_one(perf.event_call(attributes, -1, perf.online_cpus()[0]))
                held.append((event, job.point, 1))
                self._events.append(event)
                if self.attaching.multi:
                    held.append((watcher.open_one(bpf.link_event(job.program, event, cookie)), job.point, 0))
                else:
                    perf.attach(event, job.program)
            except OSError as error:
                raise Refused(error, [site]) from error


class _Tracepoints:
    """See `attach.model.Attacher`."""

    in_order = True
    cookies = True
    context = _Record()
    begin = _Attached

    def sleeps(self, sites: Sequence[Site]) -> bool:
        # Linux 7.2 takes sleepable ones at syscalls, and then all is read; at raw_syscalls it attaches none (EINVAL).
        # 6.18 loads none at all (EINVAL): what is not in memory is counted. See `Site.after_reading`.
        return all(cast("KernelEvent", site).system == "syscalls" for site in sites)

    def load(
        self, code: bytes, name: str, sleepable: bool, multi: bool, functions: Sequence[int], explained: bool
    ) -> int:
        return bpf.program_load(
            code, name, sleepable=sleepable, kind=bpf.TRACEPOINT, functions=functions, explained=explained
        )

    def cost(self, sites: Sequence[Site], costs: HitCosts) -> Cost | None:
        from tracer.kernel.trials.hit_cost import Cost  # where the overhead guard asks

        return Cost(100.0, "it is an event of the kernel")


TRACEPOINTS = _Tracepoints()
