"""The hits of `orders`, as it says them itself, laid out without a kernel: for the legs that need no root."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import cast

from tests.contract.depot import Hit
from tests.contract.replay import Replay, Take
from tests.proof.python import _Place, _WithMemory
from tests.proof.world import CHILD_PID, PAGE, Hit as Registers, Memory
from tests.suite.case import TARGET, Case
from tests.targets.build import build
from tests.targets.symbols import function_addresses
from tracer.backends.base import Session
from tracer.backends.local import LocalSession
from tracer.kinds.site import FileSite, Reg
from tracer.lang.typed import Clause, Program
from tracer.plan.model import Plan, Variant
from tracer.steps.model import Steps
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Runtime
from tracer.steps.walk import leaves
from tracer.tracing.loop import Watched

PID = CHILD_PID


@dataclass(frozen=True)
class Said(Hit):
    """A hit with the memory that was there."""

    memory: Memory = field(default_factory=Memory)


@cache
def said(rounds: int) -> tuple[Said, ...]:
    """What `orders ROUNDS` hands to its probes."""
    listing = subprocess.run([build(TARGET), str(rounds), "say"], check=True, capture_output=True, text=True).stdout
    hits, memory = [], Memory()
    for line in listing.splitlines():
        match line.split():
            case ["at", address, content]:
                memory = Memory({int(address): bytes.fromhex(content).ljust(PAGE, b"\0")})
            case ["hit", "usdt", name, *args]:
                hits.append(Said(f"{TARGET}:{name}", tuple(map(int, args)), memory=memory))
            case ["hit", "call", name, *args]:
                hits.append(Said(name, tuple(map(int, args)), memory=memory))
            case ["hit", "return", name, value]:
                hits.append(Said(name, retval=int(value), returns=True, memory=memory))
    return tuple(hits)


def is_at(site: FileSite, hit: Hit) -> bool:
    """Whether a hit is at a site."""
    if site.kind == "usdt":
        return ":" in hit.where and site.probe.endswith(f":{hit.where}")
    if (site.kind in ("uretprobe", "ret")) != hit.returns or ":" in hit.where:
        return False
    return site.function == hit.where and (
        hit.returns or site.address == function_addresses(build(TARGET))[hit.where] + hit.offset
    )


def registers(hit: Hit, variant: Variant, nsecs: int, site: int = 0) -> Registers:
    """The registers of a hit, as the operands of the site name them."""
    held = {"ax": hit.retval, "x0": hit.retval} if hit.returns else {}
    for index, spec in variant.args.items():
        assert isinstance(spec.operand, Reg), f"an argument is not in a register but at {spec.operand}"
        held[spec.operand.name] = hit.args[index]
    known: dict[str, int | bytes] = {"pid": PID, "tid": PID, "cpid": PID, "uid": 0, "gid": 0, "cpu": 0, "nsecs": nsecs}
    known |= {"comm": TARGET.encode(), "started": 1000, "moment": 0, "monotonic": nsecs - 5, "tai": nsecs + 10**18}
    return Registers(site, held, known, (0x1001, 0x1002, 0x1003))


def made(program: Program, clause: Clause, steps: Steps, variant: Variant, runtime: Runtime) -> Take:
    """A clause as the product compiles it for user space, reading the memory that the target showed."""
    place = _Place(Memory())
    place.variant = variant
    printer = type("WithMemory", (_WithMemory,), {"place": place})
    body = compile_clause(program, clause, steps, variant, runtime, printer)
    sources = [leaf.source for leaf in leaves(steps)]

    def take(hit: Hit, nsecs: int) -> None:
        assert isinstance(hit, Said)
        place.memory = hit.memory
        place.hit = registers(hit, variant, nsecs)
        body(tuple([place.value(source) for source in sources]))

    return take


@contextmanager
def session(plan: Plan, case: Case) -> Iterator[tuple[Session, Watched | None]]:
    """A session whose hits are those that the target says, and what ends it."""
    if not plan.probes:
        with LocalSession(plan) as local:
            yield cast("Session", local), None
    else:
        with Replay(plan, said(case.rounds or 1), made, is_at) as replay:
            yield cast("Session", replay), Watched(lambda: replay.over)
