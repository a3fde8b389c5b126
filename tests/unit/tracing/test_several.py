"""Several consumers of one trace: each prints what it prints alone, and what a program does is done once."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from itertools import count

import pytest

from tracer import pipeline
from tracer.errors import Source
from tracer.render import renderer_of
from tracer.render.notices import Consumer
from tracer.render.renderer import Renderer
from tracer.results.events import Event, MapEvent, PrintfBatch, PrintfEvent, TimeEvent, ValueBatch
from tracer.results.store import LocalMaps
from tracer.results.values import MapSnapshot
from tracer.tracing.several import Once, Several

PLAN, _ = pipeline.plan(
    Source('BEGIN { printf("%d;", 1); errorf("bad %d", 2); system("date %d", 3); cat("/x%d", 4); debugf("d"); '
           'print(1); @a = count(); @b = 2; time("%H %f\\n"); }'),
    given={"unsafe": "true"},
)  # fmt: skip
PROGRAM = PLAN.program
PRINTF, ERRORF, SYSTEM, CAT, DEBUGF, TIME = range(len(PROGRAM.formats))


class Machine:
    """The effects of a program, each with another result each time. Commands end at once, or when asked to."""

    escapes = False

    def __init__(self, waits: bool = False) -> None:
        self.done: list[tuple[str, bytes]] = []
        self.running: list[Callable[[], None]] = []
        self.waits = waits
        self.numbers = count()

    def say(self, text: bytes) -> None:
        self.done.append(("say", text))

    def file(self, name: bytes, most: int) -> bytes:
        self.done.append(("file", name))
        return b"content %d\n" % next(self.numbers)

    def command(self, text: bytes, show: Callable[[bytes], None]) -> None:
        self.done.append(("command", text))
        printed = b"output %d" % next(self.numbers)
        self.running.append(lambda: show(printed))
        if not self.waits:
            self.running.pop()()


def events() -> list[Event]:
    """Made anew each time: the rows of a batch can be read once."""

    def rows(*values: int) -> Iterator[tuple[int, ...]]:
        return iter([(value,) for value in values])

    return [
        PrintfEvent(PRINTF, (1,)),
        PrintfBatch(PRINTF, rows(2, 3)),
        PrintfBatch([SYSTEM, PRINTF, SYSTEM, CAT, ERRORF, ERRORF], rows(4, 5, 4, 6, 7, 7)),
        PrintfEvent(SYSTEM, (4,)),
        PrintfEvent(ERRORF, (7,)),
        PrintfEvent(DEBUGF, ()),
        ValueBatch(0, iter([8, 9])),
        MapEvent("@a", 0, 0),
        TimeEvent(TIME, 1_700_000_000_123_456_789),
    ]


def printed(formats: tuple[str, ...], machine: Machine, store: LocalMaps) -> list[str]:
    once, outs = Once(machine), [io.BytesIO() for _ in formats]
    consumer = Several(
        [renderer_of(each)(PROGRAM, None, out, False, once.of_each()) for each, out in zip(formats, outs, strict=True)],
        once,
    ) if len(formats) > 1 else renderer_of(formats[0])(PROGRAM, None, outs[0], False, machine)  # fmt: skip
    consumer.attached(1)
    for event in events():
        consumer.event(event, store)
    consumer.maps([store.snapshot("@a"), store.snapshot("@b")])
    consumer.silent("probe", "why")
    while machine.running:
        machine.running.pop(0)()
    consumer.finish()
    consumer.end()
    return [out.getvalue().decode() for out in outs]


@pytest.fixture
def store() -> LocalMaps:
    made = LocalMaps(PROGRAM)
    made.aggregate("@a", (), "count", 0)
    made.set("@b", (), 2)
    return made


@pytest.mark.parametrize("waits", [False, True], ids=["commands end at once", "commands end later"])
@pytest.mark.parametrize("formats", [("text", "json"), ("json", "text"), ("text", "json", "text")])
def test_each_prints_what_it_prints_alone_and_effects_happen_once(
    formats: tuple[str, ...], waits: bool, store: LocalMaps
) -> None:
    alone = {name: printed((name,), Machine(waits), store) for name in ("text", "json")}
    only_text = Machine(waits)
    printed(("text",), only_text, store)
    machine = Machine(waits)
    together = printed(formats, machine, store)
    assert sorted(machine.done) == sorted(only_text.done)
    assert len(machine.done) == 8
    assert together == [alone[name][0] for name in formats]


def test_a_time_and_a_printed_map_are_of_one_moment(store: LocalMaps) -> None:
    seen: list[Event] = []

    class Changing(Consumer):
        def event(self, event: Event, store: object) -> None:
            seen.append(event)
            assert isinstance(store, LocalMaps)
            store.set("@b", (), len(seen) + 10)

    both = Several([Changing(), Changing()], Once(Machine()))
    both.event(MapEvent("@b", 0, 0), store)
    first, second = seen
    assert isinstance(first, MapEvent) and first == second
    assert first.snapshot is not None and dict(first.snapshot.items) == {(): 2}
    both.event(TimeEvent(TIME), store)
    assert isinstance(seen[2], TimeEvent) and seen[2].moment and seen[2] == seen[3]


def test_one_that_fails_at_the_end_does_not_keep_the_maps_from_the_others(store: LocalMaps) -> None:
    out = io.BytesIO()

    class Fails(Consumer):
        def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
            raise ValueError("first")

    good: Renderer = renderer_of("json")(PROGRAM, None, out)
    with pytest.raises(ValueError, match="first"):
        Several([Fails(), good], Once(Machine())).maps(iter([store.snapshot("@b")]))
    assert out.getvalue() == b'{"type": "map", "data": {"@b": 2}}\n'
