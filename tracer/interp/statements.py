"""Typed statements as Python statements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tracer.interp.expressions import Expressions
from tracer.interp.mapcode import MapCode
from tracer.interp.source import Code, Writer, integer
from tracer.lang import typed
from tracer.results.events import Event, ExitEvent, MapEvent, PrintfEvent, TimeEvent, ValueEvent
from tracer.results.values import MapStore


class Statements:
    """Writes the body of one clause."""

    def __init__(
        self,
        expressions: Expressions,
        maps: MapCode,
        writer: Writer,
        store: MapStore,
        emit: Callable[[Event], None],
    ) -> None:
        self.expressions = expressions
        self.maps = maps
        self.writer = writer
        self._store = store
        self._emit = emit

    def block(self, body: tuple[typed.Stmt, ...]) -> None:
        """Several statements; at least one line is written."""
        mark = self.writer.mark()
        for statement in body:
            self.statement(statement)
        if self.writer.mark() == mark:
            self.writer.line("pass")

    def statement(self, stmt: typed.Stmt) -> None:
        """One statement."""
        line = self.writer.line
        match stmt:
            case typed.VarSet(slot=slot, value=value):
                line(f"v{int(slot)} = {self.expressions.value(value).text}")
            case typed.MapSet(map=name, key=key, value=value):
                text, (code,) = self.expressions.key(key, value)
                self.maps.assign(name, text, code.text)
            case typed.MapAdd(map=name, key=key, value=value):
                text, (code,) = self.expressions.key(key, value)
                self.maps.add(name, text, self.writer.keep(code))
            case typed.Aggregate(map=name, key=key, function=function, value=None):
                self.maps.aggregate(name, self.expressions.key(key)[0], function, integer(0))
            case typed.Aggregate(map=name, key=key, function=function, value=typed.Expr() as value):
                text, (code,) = self.expressions.key(key, value)
                self.maps.aggregate(name, text, function, code)
            case typed.Delete(map=name, key=key):
                self.maps.delete(name, self.expressions.key(key)[0])
            case typed.ExprStmt(expr=expr):
                line(self.expressions.value(expr).text)
            case typed.If():
                self._if(stmt)
            case typed.While():
                self._while(stmt)
            case typed.ForRange():
                self._for_range(stmt)
            case typed.ForMap(slot=slot, map=name, body=body):
                with self.writer.block(f"for v{int(slot)} in {self.maps.entries(name)}:"), self.expressions.branch():
                    self.block(body)
            case typed.Return():
                line("return")
            case typed.Break():
                line("break")
            case typed.Continue():
                line("continue")
            case _:
                self._event(stmt)

    def _event(self, stmt: typed.Stmt) -> None:
        match stmt:
            case typed.Printf(format=format, args=args):
                items = "".join(f"{code.text}, " for code in self.expressions.values(args)).rstrip()
                self._send_new(PrintfEvent, f"({int(format)}, ({items}))")
            case typed.PrintValue(shape=shape, value=value):
                self._send_new(ValueEvent, f"({int(shape)}, {self.expressions.value(value).text})")
            case typed.PrintMap(map=name, top=top, div=div):
                self._call(partial(_print_map, self._store, self._emit, MapEvent(name, top, div)))
            case typed.Clear(map=name):
                self._call(partial(self._store.clear, name))
            case typed.Zero(map=name):
                self._call(partial(self._store.zero, name))
            case typed.Time(format=format):
                self._send(TimeEvent(format))
            case typed.Exit(code=code):
                self.writer.line(f"{self.expressions.runtime_name}.exiting = True")
                self._send(ExitEvent(code))
                self.writer.line("return")
            case _:
                raise TypeError(f"no such statement in the typed program: {type(stmt).__name__}")

    def _call(self, function: Callable[[], None]) -> None:
        self.writer.line(f"{self.writer.bind(function, 'call')}()")

    def _send(self, event: Event) -> None:
        self.writer.line(f"{self._emit_name()}({self.writer.bind(event, 'event')})")

    def _send_new(self, kind: type[PrintfEvent] | type[ValueEvent], fields: str) -> None:
        # tuple.__new__ makes the same named tuple without the call of its Python-level __new__.
        new = self.writer.bind(tuple.__new__, "new")
        self.writer.line(f"{self._emit_name()}({new}({self.writer.bind(kind, 'kind')}, {fields}))")

    def _emit_name(self) -> str:
        return self.writer.bind(self._emit, "emit")

    def _if(self, stmt: typed.If) -> None:
        condition = self.expressions.condition(stmt.condition)
        with self.writer.block(f"if {condition}:"), self.expressions.branch():
            self.block(stmt.then)
        if stmt.otherwise:
            with self.writer.block("else:"), self.expressions.branch():
                self.block(stmt.otherwise)

    def _while(self, stmt: typed.While) -> None:
        rounds = self.writer.temporary()
        with self.writer.block(f"for {rounds} in range({typed.LOOP_LIMIT + 1}):"), self.expressions.branch():
            condition = self.expressions.condition(stmt.condition)
            with self.writer.block(f"if not {condition}:"):
                self.writer.line("break")
            with self.writer.block(f"if {rounds} == {typed.LOOP_LIMIT}:"):
                self.writer.line(f"{self.expressions.loss}.loops += 1")
                self.writer.line("break")
            self.block(stmt.body)

    def _for_range(self, stmt: typed.ForRange) -> None:
        start, stop = (self.writer.keep(code) for code in self.expressions.values((stmt.start, stmt.stop)))
        end = Code(f"min({stop.text}, {start.text} + {typed.LOOP_LIMIT})")
        with (
            self.writer.block(f"for v{int(stmt.slot)} in range({start.text}, {end.text}):"),
            self.expressions.branch(),
        ):
            self.block(stmt.body)
        # A loop that `break` left was not cut.
        with self.writer.block("else:"), self.writer.block(f"if {stop.text} - {start.text} > {typed.LOOP_LIMIT}:"):
            self.writer.line(f"{self.expressions.loss}.loops += 1")


def _print_map(store: MapStore, emit: Callable[[Event], None], event: MapEvent) -> None:
    """The map as it is now: who takes the event may do so after later statements have changed it."""
    emit(event._replace(snapshot=store.snapshot(event.map)))
