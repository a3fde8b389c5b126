"""What the formats of a flow share: the records of its program become calls; arguments and results are shown by the
types that debug information says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tracer.dataclass import dataclass, replace
from tracer.errors import printable
from tracer.host.stat import has_ended
from tracer.lang.types import BoolType, IntType, StructType, TupleType, memory_size
from tracer.render.flow.calls import GOROUTINE_BITS, Begun, Calls, Ended, Hit, Listener, Open, Resumed, Thread
from tracer.render.notices import FirstHits, NeverHeld, NotHit
from tracer.render.text import TextRenderer
from tracer.results.events import ValueBatch, ValueEvent

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.lang.types import Type, Value
    from tracer.lang.types.outside import Parameter
    from tracer.render.notices import Notice
    from tracer.render.value_text import Show, ValueText
    from tracer.results.events import Event
    from tracer.results.values import MapSnapshot, MapStore

UNKNOWN = b"?"
_WORD = 1 << 64


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a flow, `shown` so, the attach point of its beginning, and what debug information says: its
    parameters, or None where nothing tells of them; the type of its result, or None where that is not known; the
    `struct` that it returns (`results.struct_result`); `returns` is False where no register has its result. `above`: it
    is one whose flow it is. `leaves`: it may end in a tail call. `probe` is what its hits call the attach point,
    without the kind.
    """

    shown: str
    point: str
    parameters: tuple[Parameter, ...] | None
    result: Type | None
    struct: Parameter | None
    returns: bool
    above: bool
    leaves: bool
    probe: str


class FlowRenderer(TextRenderer, Listener):
    """Takes the records of a flow's program, of the `functions` by their names; everything else is as in text."""

    def __init__(self, functions: Mapping[str, Function], program: Program, *rest: Any) -> None:
        super().__init__(program, *rest)
        self._functions = functions
        self.lost_so_far: Callable[[], int] = lambda: 0
        """How much was lost until now."""
        above = [name for name, function in functions.items() if function.above]
        leaving = [name for name, function in functions.items() if function.leaves]
        self.calls = Calls(above, leaving, self)
        self._hits = {number: _hit_of(shape) for number, shape in enumerate(program.shapes)}
        self._arguments = {name: _shown_arguments(self.text, function) for name, function in functions.items()}
        self._results = {name: _shown_result(self.text, function) for name, function in functions.items()}

    def event(self, event: Event, store: MapStore) -> None:
        """A record of a call, or anything else that the program prints."""
        if isinstance(event, ValueEvent | ValueBatch):
            values = (event.value,) if isinstance(event, ValueEvent) else event.values
            hit_of = self._hits[event.shape]
            if hit_of is not None:
                for value in values:
                    self.calls.take(hit_of(value))
                return
        super().event(event, store)

    def finish(self) -> None:
        """Tells what is under way at the end, the innermost first."""
        self.calls.close()
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for thread in self.calls.threads.values():
            for call in reversed(thread.calls):
                whole = thread.number if thread.goroutine is None else thread.process
                ended = has_ended(whole, call.begun.time_ns)
                self.under_way(thread, call, None if ended else max(now - call.begun.time_ns, 0))
        super().finish()

    def under_way(self, thread: Thread, call: Open, age_ns: int | None) -> None:
        """A call that has not ended; None where its thread has, so that it never will."""

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """A flow has none to show."""

    def as_wanted(self, notice: Notice) -> Notice | None:
        """That a function below was not called is no news; that there was no flow is."""
        if isinstance(notice, NeverHeld | FirstHits):
            return None
        if not isinstance(notice, NotHit):
            return notice
        above = tuple([function.point for function in self._functions.values() if function.above])
        points = tuple([point for point in notice.points if point in above])
        return replace(notice, points=points) if points and not self.calls.any else None

    def detached(self, probe: str, hits: int, seconds: float, after_s: float, maps: Any) -> None:
        """Its calls under way have no end that is seen."""
        for name, function in self._functions.items():
            if probe.partition(":")[2] in (function.probe, function.point.partition(":")[2]):
                self.calls.forget(name)

    def name(self, function: str) -> bytes:
        """A function's name, as it may be written."""
        shown = self._functions[function].shown if function in self._functions else function
        text = shown.encode("utf-8", "surrogateescape")
        return self.text.escape(text) if self.text.escape is not None else text

    def arguments(self, begun: Begun) -> list[tuple[str, bytes]] | None:
        """The parameters and the values; None where they are not known."""
        show = self._arguments.get(begun.function)
        return None if show is None else show(begun.arguments)

    def result(self, ended: Ended) -> bytes | None:
        """What it returned; None where it returned nothing."""
        return self._results.get(ended.function, _raw)(ended.result)


def _hit_of(shape: Type) -> Callable[[Any], Hit] | None:
    """From a record of the flow's program to the hit; None for another."""
    if not isinstance(shape, TupleType) or not shape.names:
        return None
    place = {name: index for index, name in enumerate(shape.names)}
    moment, tid, pointer = place.get("time"), place.get("tid"), place.get("sp")
    goroutine, process = place.get("goroutine"), place.get("pid")
    if goroutine is not None and process is not None:
        # One hit of a thread, whose number is made of two: of the same goroutine in each process there is one.
        hit = _hit_of(replace(shape, names=tuple(["tid" if name == "goroutine" else name for name in shape.names])))
        place_of, whose = goroutine, process
        return hit and (lambda value: hit((
            *value[:place_of], (value[whose] << GOROUTINE_BITS) + value[place_of], *value[place_of + 1 :],
        )))  # fmt: skip
    function, back, result, why = (place.get(name) for name in ("func", "back", "retval", "why"))
    second = place.get("second")
    if moment is None or tid is None or pointer is None:
        return None
    if why is not None:
        return lambda value: Resumed(value[moment], value[tid], value[pointer], _text(value[why]))
    if function is None:
        return None
    if back is None:
        if result is None:
            return lambda value: Ended(value[moment], value[tid], _text(value[function]), value[pointer], 0)
        if second is not None:
            return lambda value: Ended(
                value[moment], value[tid], _text(value[function]), value[pointer],
                value[result] % _WORD + value[second] % _WORD * _WORD,
            )  # fmt: skip
        return lambda value: Ended(
            value[moment], value[tid], _text(value[function]), value[pointer], value[result]
        )
    first = min((index for name, index in place.items() if name.startswith("arg")), default=len(place))
    pid, comm = place.get("pid"), place.get("comm")

    def begun(value: Any) -> Hit:
        who: Any = (value[pid], value[comm]) if pid is not None and comm is not None else (0, b"")
        return Begun(
            value[moment], value[tid], _text(value[function]), value[pointer], value[back], tuple(value[first:]), *who
        )

    return begun


def _text(value: Any) -> str:
    return bytes(value).decode("utf-8", "surrogateescape")


def _shown_arguments(
    text: ValueText, function: Function
) -> Callable[[tuple[Value, ...]], list[tuple[str, bytes]]] | None:
    if function.parameters is None:
        return None
    shows = [(printable(parameter.name), _of_parameter(text, parameter)) for parameter in function.parameters]
    return lambda values: [(name, show(values)) for name, show in shows]


def _of_parameter(text: ValueText, parameter: Parameter) -> Callable[[tuple[Value, ...]], bytes]:
    kind, pieces = parameter.type, parameter.pieces
    if parameter.reason or not pieces or kind is None:
        return lambda values: UNKNOWN
    if parameter.reference or parameter.indirect:
        return lambda values: b"%#x" % _number(values, pieces[0][2])
    size = max(offset + length for offset, length, _, _ in pieces)

    def content(values: tuple[Value, ...]) -> bytes:
        data = bytearray(size)
        for offset, length, index, bit in pieces:
            data[offset : offset + length] = (_number(values, index) >> bit).to_bytes(9, "little")[:length]
        return bytes(data)

    if isinstance(kind, StructType) and kind.fields:
        show = text.of(kind)
        return lambda values: show(content(values).ljust(memory_size(kind), b"\0"))
    shown = _of_number(text, kind)
    return lambda values: shown(int.from_bytes(content(values), "little"))


def _shown_result(text: ValueText, function: Function) -> Callable[[int], bytes | None]:
    if not function.returns:
        return lambda result: None if function.struct is None else UNKNOWN
    if function.struct is not None:
        struct = _of_parameter(text, function.struct)
        return lambda result: struct((result % _WORD, result // _WORD))
    return _raw if function.result is None else _of_number(text, function.result)


def _of_number(text: ValueText, kind: Type) -> Callable[[int], bytes]:
    """How the lowest bits of a register are shown."""
    if isinstance(kind, BoolType):
        return lambda number: b"true" if number & 0xFF else b"false"
    if not isinstance(kind, IntType):
        return _raw
    show: Show = text.of(kind)
    bits, signed = kind.bits, kind.signed

    def shown(number: int) -> bytes:
        number &= (1 << bits) - 1
        return show(number - (1 << bits) if signed and number >> (bits - 1) else number)

    return shown


def _raw(number: int) -> bytes:
    return b"%#x" % number


def _number(values: tuple[Value, ...], index: int) -> int:
    value = values[index] if index < len(values) else 0
    return value if isinstance(value, int) else 0


def duration(nanoseconds: int) -> bytes:
    """A time in three digits: `812 ns`, `12.3 us`, `1.20 ms`."""
    for unit, size in ((b"s", 1_000_000_000), (b"ms", 1_000_000), (b"us", 1000)):
        if nanoseconds >= size:
            number = nanoseconds / size
            return b"%.*f %b" % (2 if number < 9.995 else 1 if number < 99.95 else 0, number, unit)
    return b"%d ns" % nanoseconds
