"""The third leg: the steps as Python, fed with the hits that `depot` makes by its arithmetic, in place of a kernel.

`Replay` is a session whose hits come from `tests.contract.depot`. The run loop, the maps and the renderers are the
product's own; what a backend does (fetching, filtering, aggregating in the kernel) is left out.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import cast

from tests.contract import depot
from tests.contract.depot import Hit
from tests.naive import Naive
from tests.targets.build import build
from tests.targets.symbols import function_addresses
from tracer.backends.base import Session
from tracer.backends.local import LocalSession
from tracer.errors import Source as SourceText
from tracer.kinds.site import FileSite
from tracer.lang.typed import Clause, Program
from tracer.lang.types import IntType, Stack, Type
from tracer.pipeline import plan as plan_of
from tracer.plan.model import Plan, ProbePlan, Variant
from tracer.render import renderer_of
from tracer.results.events import Event, ExitEvent, Loss, Outcome
from tracer.results.store import LocalMaps
from tracer.steps.model import Steps
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Runtime
from tracer.steps.values import Argument, BuiltIn, Bytes, Memory, ReturnValue, Source, Text, UserStack
from tracer.steps.walk import leaves
from tracer.tracing.loop import Controls, Watched, run

PID = 4242
STACK = (0x1001, 0x1002, 0x1003)


class Names:
    """The symbols of the replayed process: addresses are made up here, so their names are too."""

    def symbol(self, pid: int, address: int) -> str:
        """The function that holds an address."""
        assert pid == PID
        return "price" if address == depot.PRICE else f"{address:#x}"

    def frame(self, pid: int, address: int, returned: bool = False) -> str:
        """The function and the offset in it."""
        assert pid == PID
        return dict(zip(STACK, ("inner+4", "middle+9", "outer+9"), strict=True))[address]

    def interrupts(self, pid: int, address: int) -> bool:
        """No signal."""
        return False

    def sources(self, pid: int, address: int, returned: bool = False) -> list[tuple[str, str]]:
        """Nothing."""
        return []

    def path(self, pid: int, address: int) -> str | None:
        """No file."""
        return None

    def build_id(self, pid: int, address: int) -> tuple[str, int] | None:
        """No file."""
        return None

    def mapping(self, pid: int, address: int) -> None:
        """No file."""
        return None


@dataclass(frozen=True)
class Answer:
    """How a replay ended."""

    out: bytes
    outcome: Outcome


Take = Callable[[Hit, int], None]
"""Runs a clause at a hit and its `nsecs`."""

Make = Callable[[Program, Clause, Steps, Variant, Runtime], Take]

IsAt = Callable[[FileSite, Hit], bool]
"""Whether a hit is at a site."""


def compiled(program: Program, clause: Clause, steps: Steps, variant: Variant, runtime: Runtime) -> Take:
    """A clause as the product compiles it."""
    body = compile_clause(program, clause, steps, variant, runtime)
    sources = [leaf.source for leaf in leaves(steps)]
    return lambda hit, nsecs: body(tuple(_value(source, hit, nsecs) for source in sources))


def walked(program: Program, clause: Clause, steps: Steps, variant: Variant, runtime: Runtime) -> Take:
    """A clause that the tree walk runs: it knows nothing of steps."""
    return lambda hit, nsecs: Naive(program, clause, runtime, variant, _Reader(hit, nsecs))()


def replay(program: str, format: str, rounds: int, make: Make = compiled) -> Answer:
    """Runs a program (`T` already replaced) on the hits of `depot ROUNDS`; `make` makes its clauses runnable."""
    plan, _ = plan_of(SourceText(program))
    out = io.BytesIO()
    names = Names()
    renderer = renderer_of(format)(plan.program, names, out)
    if not plan.probes:
        with LocalSession(plan) as local:
            outcome = run(cast("Session", local), plan, renderer, Controls())
    else:
        with Replay(plan, depot.hits(rounds), make) as session:
            watched = Watched(lambda: session.over)
            outcome = run(cast("Session", session), plan, renderer, Controls(), watched)
    return Answer(out.getvalue(), outcome)


class Replay:
    """Follows `backends.base.Session`."""

    def __init__(self, plan: Plan, hits: tuple[Hit, ...], make: Make, is_at: IsAt | None = None) -> None:
        self.maps = LocalMaps(plan.program)
        self.over = False
        self._events: list[Event] = []
        self._lost = Loss()
        self._runtime = Runtime(self.maps, self._events.append, self._lost)
        self._clauses = [_Clause(plan, probe, self._runtime, make, is_at or _is_at) for probe in plan.probes]
        self._hits = hits
        self._attached = False

    @property
    def left_out(self) -> Sequence[FileSite]:
        return ()

    def begin(self, maps: LocalMaps) -> None:
        """What BEGIN has put into the maps."""
        self.maps.receive(maps)

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Hits begin to count."""
        self._attached = True
        return sum(len(clause.sites) for clause in self._clauses)

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterator[Event]:
        """Everything that happens, one hit after the other."""
        for number, hit in enumerate(self._hits):
            for clause in self._clauses:
                clause.take(hit, nsecs=self._runtime.start_ns + 1000 * (number + 1))
                events, self._events[:] = list(self._events), []
                for event in events:
                    yield event
                    if isinstance(event, ExitEvent):
                        self.over = True
                        return
        self.over = True

    def detach(self) -> None:
        """No hit counts any more."""
        self._attached = False

    def collect(self) -> None:
        """Nothing is in any buffer."""

    def drop(self) -> None:
        """Nothing is on its way."""

    def drain(self, hurried: Callable[[], bool] = lambda: False) -> Iterable[Event]:
        """Nothing is on its way."""
        return ()

    def loss(self) -> Loss:
        """What the clauses and the maps lost."""
        return self._lost + self.maps.loss

    def hits(self) -> int:
        """All of them."""
        return len(self._hits)

    def close(self) -> None:
        """Nothing to undo."""

    def __enter__(self) -> Replay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Clause:
    """A clause with its compiled variants."""

    def __init__(self, plan: Plan, probe: ProbePlan, runtime: Runtime, make: Make, is_at: IsAt) -> None:
        self.is_at = is_at
        steps = plan.steps[probe.clause.id]
        self.sites: list[tuple[FileSite, Take]] = []
        for variant in probe.variants:
            body = make(plan.program, probe.clause, steps, variant, runtime)
            self.sites += [(site, body) for site in variant.places]

    def take(self, hit: Hit, nsecs: int) -> None:
        """Runs the clause if one of its sites is the place of the hit."""
        for site, body in self.sites:
            if self.is_at(site, hit):
                body(hit, nsecs)
                return


def _is_at(site: FileSite, hit: Hit) -> bool:
    if site.kind == "usdt":
        return ":" in hit.where and site.probe.endswith(f":{hit.where}")
    if (site.kind in ("uretprobe", "ret")) != hit.returns or ":" in hit.where:
        return False
    return site.function == hit.where and (
        hit.returns or site.address == function_addresses(build("depot"))[hit.where] + hit.offset
    )


def _built_in(name: str, hit: Hit, nsecs: int) -> object:
    known = {"pid": PID, "tid": PID, "cpid": PID, "uid": 0, "gid": 0, "cpu": 1, "nsecs": nsecs, "comm": b"depot"}
    known |= {"moment": 0, "monotonic": nsecs - 5, "tai": nsecs + 10**18}
    return known[name] if name != "retval" else hit.retval


class _Reader:
    """What the tree walk reads at a hit."""

    def __init__(self, hit: Hit, nsecs: int) -> None:
        self.hit = hit
        self.nsecs = nsecs

    def argument(self, index: int, type: Type) -> int | None:
        return _fit(self.hit.args[index], type) if isinstance(type, IntType) else self.hit.args[index]

    def built_in(self, name: str) -> object:
        return _built_in(name, self.hit, self.nsecs)

    def stack(self, frames: int) -> Stack:
        return Stack(PID, STACK[:frames])

    def integer(self, address: int, type: IntType) -> int | None:
        raw = _read(address, type.bits // 8)
        return None if raw is None else int.from_bytes(raw, "little", signed=type.signed)

    def block(self, address: int, size: int) -> bytes | None:
        return _read(address, size)

    def string(self, address: int, size: int, sized: bool, length: int | None) -> tuple[bytes, bool] | None:
        if length is not None and length <= size:
            size, sized = length, True
        if address == 0 or size == 0:
            return b"", False
        raw = _read(address, 1 << 16)
        if raw is None:
            return None if size > 1 or not sized else (b"", False)
        text = raw.partition(b"\0")[0]
        return text[: size - 1], len(text) >= size and not sized


def _value(source: Source, hit: Hit, nsecs: int) -> object:
    """What the backend would deliver for a source."""
    match source:
        case BuiltIn(name=name):
            return _built_in(name, hit, nsecs)
        case UserStack(frames=frames):
            return Stack(PID, STACK[:frames])
        case Text(base=base, offset=offset, measured=measured):
            where = _address(base, offset, hit)
            raw = b"" if where == 0 else None if where is None else _read(where, 1 << 16)
            text = None if raw is None else raw.partition(b"\0")[0]
            if not measured:
                return text
            return (b"", None) if text is None else (text, b"")
        case Bytes(base=base, offset=offset, size=size):
            where = _address(base, offset, hit)
            return None if where is None else _read(where, size)
    return _integer(source, hit)


def _address(base: Source | None, offset: int, hit: Hit) -> int | None:
    assert base is not None
    value = _integer(base, hit)
    return None if value is None else depot.u(value + offset)


def _integer(source: Source, hit: Hit) -> int | None:
    match source:
        case Argument(index=index, type=IntType() as type):
            return _fit(hit.args[index], type)
        case ReturnValue():
            return hit.retval
        case Memory(base=base, offset=offset, type=type):
            where = _address(base, offset, hit)
            raw = None if where is None else _read(where, type.bits // 8)
            return None if raw is None else int.from_bytes(raw, "little", signed=type.signed)
    raise AssertionError(f"not a leaf: {source}")


def _fit(value: int, type: IntType) -> int:
    return depot.signed(value, type.bits) if type.signed else depot.u(value, type.bits)


def _read(address: int, size: int) -> bytes | None:
    """The memory of the process; as much as there is of it."""
    for start, content in depot.memory().items():
        if start <= address < start + len(content):
            return content[address - start :][:size]
    return None
