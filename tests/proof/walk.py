"""The typed program of a case, walked over its hits."""

from __future__ import annotations

from collections.abc import Sequence

from tests.naive import Naive
from tests.proof.python import outcome
from tests.proof.tables import in_kernel_order
from tests.proof.world import STARTED, Hit, Memory, argument, cut_to, integer_at
from tracer.kinds.site import FileSite, in_files
from tracer.lang.types import IntType, Stack, Type
from tracer.plan.model import Plan, Variant
from tracer.results.events import Event, Loss
from tracer.results.store import LocalMaps
from tracer.results.values import Key, MapValue
from tracer.steps.python.runtime import Runtime


class _Reader:
    """Reads the world at a hit."""

    def __init__(self, hit: Hit, site: FileSite, memory: Memory) -> None:
        self.hit = hit
        self.site = site
        self.memory = memory

    def argument(self, index: int, type: Type) -> int | None:
        found = argument(self.site.args[index], self.hit, self.memory)
        return found if found is None else cut_to(found, 64, isinstance(type, IntType) and type.signed)

    def built_in(self, name: str) -> int | bytes:
        return self.hit.registers["ax"] if name == "retval" else self.hit.built_ins[name]

    def stack(self, frames: int) -> Stack:
        pid = self.hit.built_ins["pid"]
        assert isinstance(pid, int)
        return Stack(pid, self.hit.frames[:frames])

    def integer(self, address: int, type: IntType) -> int | None:
        return integer_at(self.memory, address, type.bits, type.signed)

    def block(self, address: int, size: int) -> bytes | None:
        return self.memory.read(address, size)

    def string(self, address: int, size: int, sized: bool, length: int | None) -> tuple[bytes, bool] | None:
        return self.memory.string(address, size, sized, length)


class _Walk(Naive):
    def entries(self, name: str) -> list[tuple[Key, MapValue]]:
        return in_kernel_order(self.program.maps[name], self.runtime.maps.snapshot(name).items)


def run(plan: Plan, hits: Sequence[Hit], memory: Memory) -> dict[str, object]:
    """What a program does."""
    loss, events = Loss(), list[Event]()
    store = LocalMaps(plan.program, loss)
    runtime = Runtime(store, events.append, loss, start_ns=STARTED)
    clause = plan.program.clauses[0]
    for hit in hits:
        site = in_files(clause.sites)[hit.site]
        named = Variant(0, {}, {"probe": site.probe.encode(), "func": site.function.encode()}, (site,))
        _Walk(plan.program, clause, runtime, named, _Reader(hit, site, memory))()
    return outcome(plan, store, events, loss, runtime.exiting)
