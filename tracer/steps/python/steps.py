"""Steps as Python statements: a table from step to lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from tracer.lang import typed
from tracer.results.events import Event, ExitEvent, MapEvent, PrintfEvent, TimeEvent, ValueEvent
from tracer.results.store import empty_value
from tracer.results.values import MapStore
from tracer.steps import model, values
from tracer.steps.model import Step, Steps
from tracer.steps.python.maps import PythonMaps
from tracer.steps.python.runtime import NO_ROOM, Runtime, measured
from tracer.steps.python.source import Writer
from tracer.steps.python.value_source import PythonValues
from tracer.steps.rounds import NO_ROUNDS
from tracer.steps.values import Name, Source, Value
from tracer.steps.walk import leaves, walk


class _Outside(Exception):
    """An index is that of no element."""


class PythonSteps:
    """Prints one clause. `always` says of a source that every hit has it; `crowded`: the clause runs at hits,
    so a value may be missing because the kernel had no room for it.
    """

    def __init__(
        self, program: typed.Program, steps: Steps, runtime: Runtime, told: Callable[[str], bytes | int],
        always: Callable[[Source], bool], crowded: bool,
    ) -> None:  # fmt: skip
        self.steps = steps
        self.runtime = runtime
        self.writer = Writer()
        self.world = self.writer.bind(runtime, "runtime")
        self.values = PythonValues(self.writer, told, self.world)
        self.maps = PythonMaps(program, runtime.maps, self.values)
        self.always = always
        self.crowded = crowded
        self.loss = self.writer.bind(runtime.loss, "loss")
        self.attempts = 0
        self.leaves = {fetch.source: f"a{number}" for number, fetch in enumerate(leaves(steps))}

    def source(self, stops: bool) -> str:
        """The whole source; `stops`: the clause does nothing once the program has said exit()."""
        line = self.writer.line
        if stops:
            with self.writer.block(f"if {self.world}.exiting:"):
                line("return")
        if self.leaves:
            line(f"({''.join(f'{name}, ' for name in self.leaves.values()).rstrip()}) = hit")
        for slot in sorted({step.slot for step in walk(self.steps.body) if isinstance(step, model.GetSlot)}):
            line(f"v{slot} = {self.writer.bind(empty_value(self.steps.slots[slot]), 'empty')}")
        for flag in range(self.steps.flags):
            line(f"c{flag} = False")
        if any(isinstance(step, model.Round) for step in walk(self.steps.body)):
            line("rounds = 0")
        self.block(self.steps.body)
        return self.writer.text()

    def block(self, block: model.Block) -> None:
        """Several steps."""
        for step in block:
            _STEPS[type(step)](self, step)

    def assign(self, name: Name, text: str) -> None:
        """Gives a name its value."""
        self.writer.line(f"{self.values.text(name)} = {text}")

    def key(self, parts: tuple[Value, ...]) -> str:
        """A map's key, in a form that may be written twice."""
        text = self.values.tuple(parts)
        if not parts:
            return text
        name = self.writer.temporary()
        self.writer.line(f"{name} = {text}")
        return name

    def computed(self, step: model.Fetch, name: str) -> None:
        """Memory at a computed address is no part of the hit: it cannot be read from here."""
        self.writer.line(f"{name} = None")

    # --- fetches ---

    def fetch(self, step: model.Fetch) -> None:
        """Reads a value of the hit, and leaves where it is not there."""
        source = step.source
        if source == values.BuiltIn("started"):
            self.assign(step.name, f"{self.world}.start_ns")
            return
        name = self.leaves.get(source)
        if name is None:
            if isinstance(source, values.InMemory) and source.base is None:
                name = self.values.text(step.name)
                self.computed(step, name)
            else:
                return  # nobody needs it but what is read at it, which is a part of the hit
        if isinstance(source, values.UserStack):
            if self.crowded and not self.always(source):
                with self.writer.block(f"if not {name}.addresses:"):
                    self.writer.line(f"{self.loss}.stacks += 1")
        elif not self.always(source):
            self._leaves_without(name, source)
        if isinstance(source, values.Text) and source.measured:
            assert step.length is not None
            reach, name = name, f"t{int(step.name.id)}"
            length, size = self.values.text(step.length), int(source.size)
            self.writer.line(f"{name} = {self.writer.bind(measured, 'measured')}({reach}, {length}, {size})")
            self._leaves_without(name, source)
        self.values.names[step.name] = name
        if isinstance(source, values.Text):
            self._cut(name, source, step.once)

    def _leaves_without(self, name: str, source: Source) -> None:
        absent = [("None", "unreadable")]
        if self.crowded and not isinstance(source, values.BuiltIn):
            absent.append((self.writer.bind(NO_ROOM, "no_room"), "crowded"))
        for value, lost in absent:
            with self.writer.block(f"if {name} is {value}:"):
                self.writer.line(f"{self.loss}.{lost} += 1")
                self.writer.line("return")

    def _cut(self, name: str, text: values.Text, once: int | None) -> None:
        longest = int(text.size) - 1
        with self.writer.block(f"if len({name}) > {longest}:"):
            self.writer.line(f"{name} = {name}[:{longest}]")
            if text.sized:
                return
            if once is None:
                self.writer.line(f"{self.loss}.truncated += 1")
            else:
                self.writer.line(f"{self.loss}.truncated += not c{int(once)}")
                self.writer.line(f"c{int(once)} = True")

    # --- control ---

    def within(self, step: model.Within) -> None:
        """Ends the statement, or the clause, where an index is that of no element."""
        with self.writer.block(f"if not {self.values.condition(step.condition)}:"):
            self.writer.line(f"{self.loss}.unreadable += 1")
            self.writer.line(f"raise {self.writer.bind(_Outside, 'outside')}" if self.attempts else "return")

    def attempt(self, step: model.Attempt) -> None:
        """A statement that ends alone."""
        self.attempts += 1
        with self.writer.block("try:"):
            self.block(step.body)
        self.attempts -= 1
        with self.writer.block(f"except {self.writer.bind(_Outside, 'outside')}:"):
            self.writer.line("pass")

    def choice(self, step: model.If) -> None:
        """`if`, and its value."""
        then, otherwise = step.results or (None, None)
        condition = self.values.condition(step.condition)
        if step.then or then is not None:
            self._arm(f"if {condition}:", step.then, step.result, then)
            if step.otherwise or otherwise is not None:
                self._arm("else:", step.otherwise, step.result, otherwise)
        else:
            self._arm(f"if not {condition}:", step.otherwise, None, None)

    def _arm(self, head: str, block: model.Block, name: Name | None, result: Value | None) -> None:
        with self.writer.block(head):
            self.block(block)
            if name is not None and result is not None:
                self.assign(name, self.values.text(result))

    def loop(self, step: model.While) -> None:
        """`while`."""
        with self.writer.block("while True:"):
            self.block(step.head)
            with self.writer.block(f"if not {self.values.condition(step.condition)}:"):
                self.writer.line("break")
            self.block(step.body)

    def range(self, step: model.Range) -> None:
        """`for ($i : start..stop)`."""
        start, stop = self.values.text(step.start), self.values.text(step.stop)
        with self.writer.block(f"for {self.values.text(step.name)} in range({start}, {stop}):"):
            self.block(step.body)

    def for_each(self, step: model.Each) -> None:
        """`for ($kv : @map)`."""
        with self.writer.block(f"for {self.values.text(step.name)} in {self.maps.entries(step.map)}:"):
            self.block(step.body)

    def round(self, step: model.Round) -> None:
        """Rounds of a loop that counts them."""
        with self.writer.block(f"if rounds > {step.limit - step.rounds}:"):
            self.writer.line(f"{self.loss}.loops += rounds < {NO_ROUNDS}")
            self.writer.line(f"rounds = {NO_ROUNDS}")
            self.writer.line("break")
        self.writer.line(f"rounds += {step.rounds}")

    # --- events ---

    def send(self, event: Event) -> None:
        """An event without values of the hit."""
        self.writer.line(f"{self.writer.bind(self.runtime.emit, 'emit')}({self.writer.bind(event, 'event')})")

    def send_new(self, kind: type[Any], fields: str) -> None:
        """An event with values of the hit."""
        # tuple.__new__ makes the same named tuple without the call of its Python-level __new__.
        new, bound = self.writer.bind(tuple.__new__, "new"), self.writer.bind(kind, "kind")
        self.writer.line(f"{self.writer.bind(self.runtime.emit, 'emit')}({new}({bound}, {fields}))")

    def call(self, function: Callable[[], None]) -> None:
        """Something that takes no values of the hit."""
        self.writer.line(f"{self.writer.bind(function, 'call')}()")


def _random() -> int:
    return int.from_bytes(os.urandom(4), sys.byteorder)


def _print_map(store: MapStore, emit: Callable[[Event], None], event: MapEvent) -> None:
    """A copy of the map: the event may be handled after later statements have changed the map."""
    emit(event._replace(snapshot=store.snapshot(event.map)))


def _print(printer: PythonSteps, step: model.PrintMap) -> None:
    event = MapEvent(step.map, step.top, step.div)
    printer.call(partial(_print_map, printer.runtime.maps, printer.runtime.emit, event))


def _empty(printer: PythonSteps, step: model.Empty) -> None:
    store = printer.runtime.maps
    printer.call(partial(store.zero if step.zero else store.clear, step.map))


def _exit(printer: PythonSteps, step: model.Exit) -> None:
    printer.writer.line(f"{printer.world}.exiting = True")
    printer.send_new(ExitEvent, f"({printer.values.text(step.code)},)")
    printer.writer.line("return")


def _require(printer: PythonSteps, step: model.Require) -> None:
    with printer.writer.block(f"if not {printer.values.condition(step.condition)}:"):
        printer.writer.line("return")


def _delete(printer: PythonSteps, step: model.MapDelete) -> None:
    key = printer.key(step.key)
    if step.result is not None:
        printer.assign(step.result, printer.maps.has(step.map, key))
    printer.maps.delete(step.map, key)


def _add(printer: PythonSteps, step: model.MapAdd) -> None:
    before = None if step.before is None else printer.values.text(step.before)
    printer.maps.add(step.map, printer.key(step.key), step.value, before)


_STEPS: dict[type[Step], Callable[[PythonSteps, Any], None]] = {
    model.Let: lambda p, step: p.assign(step.name, p.values.text(step.value)),
    model.Fetch: PythonSteps.fetch,
    model.Random: lambda p, step: p.assign(step.name, f"{p.writer.bind(_random, 'random')}()"),
    model.GetSlot: lambda p, step: p.assign(step.name, f"v{int(step.slot)}"),
    model.SetSlot: lambda p, step: p.writer.line(f"v{int(step.slot)} = {p.values.text(step.value)}"),
    model.MapGet: lambda p, step: p.assign(step.name, p.maps.read(step.map, p.key(step.key), step.name.type)),
    model.MapHas: lambda p, step: p.assign(step.name, p.maps.has(step.map, p.key(step.key))),
    model.MapLength: lambda p, step: p.assign(step.name, p.maps.length(step.map)),
    model.MapSet: lambda p, step: p.maps.assign(step.map, p.key(step.key), p.values.text(step.value)),
    model.MapAdd: _add,
    model.Update: lambda p, step: p.maps.aggregate(step.map, p.key(step.key), step.value),
    model.Sample: lambda p, step: p.maps.sample(step.map, p.key(step.key), step.when, step.value),
    model.MapDelete: _delete,
    model.Moment: lambda p, step: None,  # nobody else writes a map while a clause runs in user space
    model.Empty: _empty,
    model.PrintMap: _print,
    model.Printf: lambda p, step: p.send_new(PrintfEvent, f"({int(step.format)}, {p.values.tuple(step.args)})"),
    model.PrintValue: lambda p, step: p.send_new(ValueEvent, f"({int(step.shape)}, {p.values.text(step.value)})"),
    model.Time: lambda p, step: p.send(TimeEvent(step.format)),
    model.Exit: _exit,
    model.Require: _require,
    model.Within: PythonSteps.within,
    model.Attempt: PythonSteps.attempt,
    model.If: PythonSteps.choice,
    model.While: PythonSteps.loop,
    model.Range: PythonSteps.range,
    model.Each: PythonSteps.for_each,
    model.Round: PythonSteps.round,
    model.Break: lambda p, step: p.writer.line("break"),
    model.Continue: lambda p, step: p.writer.line("continue"),
    model.DividedByZero: lambda p, step: p.writer.line(f"{p.loss}.divisions += 1"),
    model.Leave: lambda p, step: p.writer.line("return"),
}
