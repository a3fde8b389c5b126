"""The steps of a program as Python, run over hits: each source that the steps read is looked up in the world."""

from __future__ import annotations

from collections.abc import Sequence

from tests.proof.world import MASK, STARTED, Hit, Memory, argument, cut_to, integer_at
from tracer.kinds.site import FileSite, in_files
from tracer.lang.types import IntType, Stack
from tracer.plan.model import Plan, Variant
from tracer.results.events import Event, ExitEvent, Loss, MapEvent, PrintfEvent, TimeEvent, ValueEvent
from tracer.results.store import LocalMaps
from tracer.steps import model, values
from tracer.steps.python.compile import compile_clause
from tracer.steps.python.runtime import Compiled, Reach, Runtime
from tracer.steps.python.steps import PythonSteps
from tracer.steps.walk import leaves


class _Place:
    """Where a clause reads: a hit at a site of a variant."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.hit: Hit
        self.variant: Variant

    def value(self, source: values.Source) -> object:
        """What a backend would deliver for a source."""
        match source:
            case values.BuiltIn(name=name):
                return self.hit.built_ins[name]
            case values.UserStack(frames=frames):
                pid = self.hit.built_ins["pid"]
                assert isinstance(pid, int)
                return Stack(pid, self.hit.frames[:frames])
            case values.Memory(base=base, offset=offset, type=type):
                address = self.address(base, offset)
                return None if address is None else self.integer(address, type)
            case values.Bytes(base=base, offset=offset, size=size):
                address = self.address(base, offset)
                return None if address is None else self.memory.read(address, size)
            case values.Text(base=base, offset=offset):
                address = self.address(base, offset)
                return None if address is None else self.text(address, source)
            case values.Argument(index=index, type=type):
                found = argument(self.variant.args[index], self.hit, self.memory)
                return found if found is None else cut_to(found, 64, isinstance(type, IntType) and type.signed)
            case values.Zero():
                return 0
            case values.ReturnValue():
                return self.hit.registers["ax"]
        raise AssertionError(source)

    def address(self, base: values.Source | None, offset: int) -> int | None:
        assert base is not None
        held = self.value(base)
        assert held is None or isinstance(held, int)
        return None if held is None else (held + offset) & MASK

    def integer(self, address: int, type: IntType) -> int | None:
        return integer_at(self.memory, address, type.bits, type.signed)

    def text(self, address: int, text: values.Text) -> bytes | Reach | None:
        """Uncut, as leaves are."""
        if address == 0:
            return (b"", b"") if text.measured else b""
        wanted = text.size - 1 if text.sized else text.size
        known, ended = self.memory.text(address, wanted)
        if text.measured:
            return known, b"" if ended else None
        return None if ended is None else known


class _WithMemory(PythonSteps):
    """Reads memory at computed addresses too."""

    place: _Place

    def computed(self, step: model.Fetch, name: str) -> None:
        source = step.source
        assert step.address is not None
        assert isinstance(source, (values.Memory, values.Text, values.Bytes))
        read = self.writer.bind(self._reader(source), "read")
        self.writer.line(f"{name} = {read}({self.values.text(step.address)})")

    def _reader(self, source: values.InMemory) -> object:
        place = self.place
        if isinstance(source, values.Bytes):
            return lambda address: place.memory.read(address & MASK, source.size)
        if isinstance(source, values.Text):
            return lambda address: place.text(address & MASK, source)
        return lambda address: place.integer(address & MASK, source.type)


def run(plan: Plan, hits: Sequence[Hit], memory: Memory) -> dict[str, object]:
    """What a program does."""
    loss, events = Loss(), list[Event]()
    store = LocalMaps(plan.program, loss)
    runtime = Runtime(store, events.append, loss, start_ns=STARTED)
    clause = plan.program.clauses[0]
    steps = plan.steps[clause.id]
    place = _Place(memory)
    printer = type("WithMemory", (_WithMemory,), {"place": place})
    bodies: dict[FileSite, tuple[Variant, Compiled]] = {}
    for probe in plan.probes:
        for variant in probe.variants:
            body = compile_clause(plan.program, clause, steps, variant, runtime, printer)
            bodies.update((site, (variant, body)) for site in variant.places)
    sources = [leaf.source for leaf in leaves(steps)]
    for hit in hits:
        place.hit = hit
        place.variant, body = bodies[in_files(clause.sites)[hit.site]]
        body(tuple([place.value(source) for source in sources]))
    return outcome(plan, store, events, loss, runtime.exiting)


def outcome(plan: Plan, store: LocalMaps, events: list[Event], loss: Loss, exiting: bool) -> dict[str, object]:
    """All that somebody could see."""
    return {
        "events": [_plain(event) for event in events],
        "maps": {name: dict(store.snapshot(name).items) for name in plan.program.maps},
        "loss": loss,
        "exiting": exiting,
        "slots kept": 0,
    }


def _plain(event: Event) -> object:
    match event:
        case PrintfEvent(format=format, args=args):
            return ("printf", format, args)
        case ValueEvent(shape=shape, value=value):
            return ("value", shape, value)
        case TimeEvent(format=format):
            return ("time", format)
        case ExitEvent(code=code):
            return ("exit", code)
        case MapEvent(map=map, top=top, div=div, snapshot=snapshot):
            assert snapshot is not None
            return ("map", map, top, div, dict(snapshot.items))
    raise AssertionError(event)
