"""An output format: a subclass of `Renderer` in a module of its own, and a line in `choices.RENDERERS`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tracer.errors import TracerError
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.render.notices import Consumer
from tracer.render.value_text import ValueText
from tracer.results.events import MapEvent, PrintfBatch, PrintfEvent, TimeEvent, ValueBatch, ValueEvent

if TYPE_CHECKING:
    from tracer.errors import Span
    from tracer.lang.typed import Output, Program
    from tracer.lang.types import Type
    from tracer.render.printf import Format
    from tracer.render.terminal.own_texts import OwnTexts
    from tracer.render.value_text import Show, Symbolizer
    from tracer.results.events import Event
    from tracer.results.values import Key, MapSnapshot, MapStore, MapValue


_WORDS = {"errorf": "ERROR", "warnf": "WARNING", "debugf": "DEBUG"}


class Sink(Protocol):
    """A stream of bytes: a file, or `cli.output`."""

    def write(self, data: bytes, /) -> object:
        """Takes some output."""

    def flush(self) -> object:
        """No more output comes for now."""


class Effects(Protocol):
    """The effects of a program other than output."""

    def say(self, text: bytes, /) -> None:
        """A line on stderr, its end included."""

    def file(self, name: bytes, most: int, /) -> bytes:
        """The first bytes of a file; none where it cannot be read, which is said."""

    def command(self, text: bytes, show: Callable[[bytes], None], /) -> None:
        """Runs a command of the shell, and shows what it prints once it has ended."""


class _None:
    def say(self, text: bytes) -> None:
        pass

    def file(self, name: bytes, most: int) -> bytes:
        return b""

    def command(self, text: bytes, show: Callable[[bytes], None]) -> None:
        pass


class Renderer(Consumer, ABC):
    """Writes results to a stream. Without a symbolizer addresses stay numbers; `quiet` leaves out what is no result.
    Without `effects` a program has none. `tells_failures`: failed reads are results too. `warns`: so is warnf().
    """

    def __init__(
        self, program: Program, symbolizer: Symbolizer | None, out: Sink, quiet: bool = False,
        effects: Effects | None = None,
    ) -> None:  # fmt: skip
        self.quiet = quiet
        self.tells_failures = False
        self.warns = True
        self.write = out.write
        self._flush = out.flush
        self._effects = effects if effects is not None else _None()
        self._program = program
        self.text = self._said = ValueText(symbolizer)
        self.own_texts: OwnTexts | None = None
        # A plain file has no such attribute.
        shown, said = self.escapes_values and getattr(out, "escapes", False), getattr(effects, "escapes", False)
        if shown or said:
            from tracer.render.terminal.escape import escaped
            from tracer.render.terminal.own_texts import OwnTexts

            self.own_texts = OwnTexts(program)
            self.text = ValueText(symbolizer, escaped) if shown else self.text
            self._said = ValueText(symbolizer, escaped) if said else self._said
        # Now, and not when the first map is shown: then there may be no descriptor for it.
        lines = {AGGREGATIONS[decl.kind].json for decl in program.maps.values() if decl.kind != "scalar"}
        if program.maps:
            from tracer.results import order as order
        if b"hist" in lines:
            from tracer.render import histogram as histogram
        if b"tseries" in lines:
            from tracer.render import series as series
        self._formats: dict[int, Format] = {}
        if program.formats:
            from tracer.render.printf import compiled_formats

            own_arguments = self.own_texts.arguments if self.own_texts is not None else lambda format: ()
            self._formats = compiled_formats(program, self.texts_of, own_arguments)
        self._shapes = [self.shape(number, shape) for number, shape in enumerate(program.shapes)]

    # --- what a format says ---

    escapes_values = True
    """Whether values are escaped on a terminal one by one; else the format sees to what it writes."""

    def texts_of(self, format: int) -> ValueText:
        """The look of a printf's arguments, or of what is written like one."""
        output = self._program.outputs.get(format)
        if output is None or output.kind == "join":
            return self.text
        return self.text.raw if output.kind in ("cat", "system") else self._said

    def shape(self, number: int, type: Type) -> Show:
        """The look of what print() shows: one of `Program.shapes`."""
        return self.show(type)

    @abstractmethod
    def show(self, type: Type) -> Show:
        """The look of values of a type."""

    @abstractmethod
    def printf(self, texts: Iterable[bytes]) -> None:
        """The texts of printf statements."""

    @abstractmethod
    def print_values(self, shown: Iterable[bytes]) -> None:
        """Values of print(expr), as `show` makes them."""

    @abstractmethod
    def print_time(self, text: bytes) -> None:
        """Prints what time() made."""

    def message(self, output: Output, text: bytes) -> None:
        """The text of errorf() and the like, which goes to stderr as a line with its place in the program, and with
        those of the calls of macros that it stands in.
        """
        where = f"{self._range(output.span)}: {_WORDS[output.kind]}: ".encode()
        said = [where + text.removesuffix(b"\n") + b"\n"]
        for span in output.within:
            source, (_, column) = self._program.source, self._program.source.position(span.start)
            start = source.text.rfind("\n", 0, span.start) + 1
            shown = source.text[start:].partition("\n")[0]
            mark = "~" * max(min(span.end, start + len(shown)) - span.start, 1)
            lines = f"{self._range(span)}: {_WORDS[output.kind]}: expanded from", shown, " " * (column - 1) + mark
            said += [line.encode("utf-8", "surrogateescape") + b"\n" for line in lines]
        self._effects.say(b"".join(said))

    def _range(self, span: Span) -> str:
        """A place in the program, with the column where it ends."""
        name, line, column = self.place(span)
        return f"{name}:{line}:{column}-{column + span.end - span.start}"

    def print_bytes(self, output: Output, data: bytes) -> None:
        """The contents of a file as they are; the output of a command or join() with a newline, as in bpftrace."""
        if output.kind != "cat":
            data += b"\n"
        elif self.text.escape is not None:
            data = self.text.escape(data)
        self.write(data)

    @abstractmethod
    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        """A map: of its entries in printing order the last `top`, or all for 0; numbers divided by `div`, if not 0."""

    # --- what the run loop calls ---

    def flush(self) -> None:
        self._flush()

    def event(self, event: Event, store: MapStore) -> None:
        """Shows one event; `store` is read for print(@x). Clear, zero and exit are the run loop's."""
        if isinstance(event, PrintfEvent):
            self._formatted(event.format, (self._formats[event.format](event.args),))
        elif isinstance(event, PrintfBatch):
            if isinstance(event.format, int):
                self._formatted(event.format, map(self._formats[event.format], event.rows))
            elif not self._program.outputs:
                rows = zip(event.format, event.rows, strict=True)
                self.printf([self._formats[format](row) for format, row in rows])
            else:
                for format, row in zip(event.format, event.rows, strict=True):
                    self._formatted(format, (self._formats[format](row),))
        elif isinstance(event, ValueEvent):
            self.print_values((self._shapes[event.shape](event.value),))
        elif isinstance(event, ValueBatch):
            self.print_values(map(self._shapes[event.shape], event.values))
        elif isinstance(event, MapEvent):
            self.print_map(event.snapshot or store.snapshot(event.map), event.top, event.div)
        elif isinstance(event, TimeEvent):
            from tracer.host.clock import format_time

            moment = time.time_ns() if event.moment is None else event.moment
            self.print_time(format_time(self._program.formats[event.format], moment))

    def _formatted(self, format: int, texts: Iterable[bytes]) -> None:
        """The texts of one printf, or of what is written like one."""
        output = self._program.outputs.get(format)
        if output is None:
            self.printf(texts)
            return
        for text in texts:
            if output.kind != "join":
                self.flush()  # where stdout and stderr are one terminal, what was printed before stands before it
            if output.kind == "cat":
                self.print_bytes(output, self._effects.file(text, self._program.config.max_cat_bytes))
            elif output.kind == "system":
                self._effects.command(text, partial(self.print_bytes, output))
            elif output.kind == "join":
                self.print_bytes(output, text)
            elif self.warns or output.kind != "warnf":
                self.message(output, text)

    def place(self, span: Span) -> tuple[str, int, int]:
        """The place that a message comes from: the program's name, line and column."""
        source = self._program.source
        name = source.part(span.start)[1]
        return ("stdin" if name == "-e" else name, *source.position(span.start))

    def ordered(self, snapshot: MapSnapshot, top: int = 0) -> list[tuple[Key, MapValue]]:
        """The entries as they are printed; see `results.order`."""
        from tracer.results.order import ordered

        return ordered(snapshot, top)

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """The maps at the end, in the order of their names. One that cannot be shown does not keep the others back:
        what it raised is raised after them.
        """
        fault: Exception | None = None
        for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.decl.name):
            try:
                self.closing_map(snapshot)
            except (TracerError, BrokenPipeError):  # nothing can be written any more
                raise
            except Exception as error:
                fault = fault or error
        if fault is not None:
            raise fault

    def closing_map(self, snapshot: MapSnapshot) -> None:
        """A map at the end; empty ones are left out."""
        if snapshot.items:
            self.print_map(snapshot, 0, 0)
