"""The hist triggers of a session while it runs: set, read into its maps, and stopped."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.ftrace.program import ProbeEvent
from tracer.backends.ftrace.read.hist_file import Row, Table, parse
from tracer.backends.ftrace.trigger import THREAD, Column, Feed, Trigger
from tracer.errors import TracerError
from tracer.host.first_namespace import in_first_pid_namespace
from tracer.kernel.uprobe_events.definitions import Definitions
from tracer.kinds.site import Target
from tracer.lang.aggregations.registry import buckets_of, kept_of
from tracer.lang.fixed_width import wrap_int
from tracer.lang.typed import MapDecl, Program
from tracer.lang.types import IntType, Value
from tracer.results.store import LocalMaps
from tracer.results.values import Key

_MASK = (1 << 64) - 1


class HistTriggers:
    """Sets the triggers of events, and adds what they have counted to the maps.

    Their tables are never cleared, only read: what they show more than the last time is new. So nothing is lost between
    two readings, and a map may be zeroed at any time.
    """

    def __init__(self, definitions: Definitions, program: Program) -> None:
        self._definitions = definitions
        self._program = program
        self._events: list[ProbeEvent] = []
        self._seen: dict[tuple[str, str], Table] = {}
        self._maps: frozenset[str] = frozenset()

    @property
    def hits(self) -> int:
        """Hits that met a trigger, as far as they have been read."""
        return sum(table.hits + table.dropped for table in self._seen.values())

    @property
    def maps(self) -> frozenset[str]:
        """The maps that triggers feed."""
        return self._maps

    def prepare(self, events: Sequence[ProbeEvent], target: Target) -> list[ProbeEvent]:
        """Sets all triggers, paused, about all processes or those of `target` and all that they start. The events,
        without triggers where the kernel refused one or writes its table in a way that we cannot read.
        """
        if target.pids:
            try:
                self._definitions.follow(target.pids)
            except TracerError as error:
                return [event.sampled(error.message) if event.hist else event for event in events]
        return [self._prepared(event) if event.hist else event for event in events]

    def start(self) -> None:
        """Hits count from now on. Raises `TracerError`."""
        self._alter("continue")

    def stop(self) -> None:
        """Hits no longer count. Raises `TracerError`."""
        self._alter("pause")

    def drop(self, event: ProbeEvent, maps: LocalMaps) -> None:
        """Ends the triggers of one event, once the maps have what they counted. Raises `TracerError`."""
        for trigger in event.hist:
            self._definitions.alter_trigger(event, trigger.action("pause"))
        self.take(maps)
        self._events.remove(event)
        self._definitions.remove_triggers(event)

    def take(self, maps: LocalMaps) -> None:
        """Adds to the maps what the triggers have counted since the last time. Raises `TracerError`."""
        for event in self._events:
            tables = parse(self._definitions.hist(event))
            for trigger in event.hist:
                name = (event.name, trigger.line)
                now, before = tables.get(trigger.line), self._seen[name]
                if now is None or now.hits < before.hits:
                    message = "a hist trigger of this trace is gone: somebody removed or cleared it"
                    raise TracerError(message, detail=trigger.line)
                # Each map counts what it leaves out; all branches feed as many (`hist.shape`).
                for feed in trigger.feeds[0] if now.dropped > before.dropped else ():
                    maps.loss.found_full(feed.map, now.dropped - before.dropped)
                for columns, row in now.rows.items():
                    held = before.rows.get(columns)
                    if row != held and row[0]:
                        self._give(maps, trigger, columns, _more(row, held))
                self._seen[name] = now

    def _prepared(self, event: ProbeEvent) -> ProbeEvent:
        if any(THREAD in trigger.keys for trigger in event.hist) and not in_first_pid_namespace():
            return event.sampled("tid is a key, and the kernel numbers it in the first pid namespace, not in this one")
        try:
            for trigger in event.hist:
                self._definitions.set_trigger(event, trigger.line, trigger.action("pause"))
            tables = parse(self._definitions.hist(event))
            if unknown := [trigger.line for trigger in event.hist if trigger.line not in tables]:
                raise TracerError("the kernel lists the trigger in an unknown form", detail=unknown[0])
        except TracerError as error:
            self._definitions.remove_triggers(event)
            return event.sampled(error.message)
        self._events.append(event)
        self._seen |= {(event.name, trigger.line): Table({}, 0, 0) for trigger in event.hist}
        self._maps |= event.hist_maps
        return event

    def _alter(self, action: str) -> None:
        for event in self._events:
            for trigger in event.hist:
                self._definitions.alter_trigger(event, trigger.action(action))

    def _give(self, maps: LocalMaps, trigger: Trigger, columns: tuple[int, ...], row: Row) -> None:
        branch = columns[-1] if trigger.branch else 0
        for feed in trigger.feeds[branch]:
            _add(maps, self._program.maps[feed.map], feed, columns, row)


def why_not(definitions: Definitions, target: Target) -> str | None:
    """Why no hist trigger can be used for this target here."""
    if target.fixed:
        some = "one" if len(target.pids) == 1 else "some"
        return f"a hist trigger counts a process with all that it starts, and this trace is of {some} alone"
    if target.pids and not in_first_pid_namespace():
        return "the kernel numbers the processes to follow in the first pid namespace, not in this one"
    return definitions.why_no_triggers(follow=bool(target.pids))


def _more(row: Row, held: Row | None) -> Row:
    """The difference of a row to before; sums wrap at 64 bits."""
    if held is None:
        return row
    sums = tuple((now - then) & _MASK for now, then in zip(row[1], held[1], strict=True))
    return row[0] - held[0], sums


def _add(maps: LocalMaps, decl: MapDecl, feed: Feed, columns: tuple[int, ...], row: Row) -> None:
    key: Key = tuple(_value(part, columns) for part in feed.key)
    hits, total = row[0], row[1][feed.total] if feed.total is not None else row[0] * feed.per_hit
    table = maps.table(decl.name)
    inner = table.get(key)
    if inner is None and len(table) >= maps.most(decl.name):
        maps.loss.found_full(decl.name, hits)
        return
    number, buckets, counted = feed.bucket, buckets_of(decl), kept_of(decl).counted
    if buckets is not None:
        if isinstance(number, Column):
            number = buckets.number(columns[number.index], *buckets.of(decl))
        assert number is not None
        counts = table.setdefault(key, {})
        counts[number] = counts.get(number, 0) + hits
        return
    assert counted is not None
    updated = counted(inner, hits, total)
    if decl.kind == "scalar" and isinstance(decl.value, IntType):
        updated = wrap_int(updated, decl.value.bits, decl.value.signed)
    table[key] = updated


def _value(part: Column | Value, columns: tuple[int, ...]) -> Value:
    if not isinstance(part, Column):
        return part
    number = columns[part.index]
    return wrap_int(number, 64, True) if part.signed else number
