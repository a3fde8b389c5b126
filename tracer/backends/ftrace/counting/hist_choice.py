"""Chooses the clauses that a hist trigger does exactly as its Python would, and says of the others why not.

A clause becomes one trigger, so that each hit is in all of its maps or in none: its maps share one set of keys. A
histogram takes up to three triggers, of which each hit meets one. Several clauses may feed one map, in the kernel or
not: all that is taken into the kernel adds up in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer.backends.ftrace.counting.bucket_parts import doubling, linear
from tracer.backends.ftrace.counting.map_uses import Uses, adds
from tracer.backends.ftrace.fetchargs import Constant as Known, FromSample, Number
from tracer.backends.ftrace.filters import SourceOf, is_word, plain, push_down
from tracer.backends.ftrace.program import Run
from tracer.backends.ftrace.trigger import (
    CPU,
    LEAST_ROWS,
    LONGEST,
    MOST_KEYS,
    MOST_ROWS,
    MOST_SUMS,
    THREAD,
    Column,
    Feed,
    Trigger,
)
from tracer.dataclass import dataclass, field
from tracer.kernel.uprobe_events.events import Fetch
from tracer.lang.aggregations.registry import buckets_of, kept_of
from tracer.lang.fixed_width import wrap_int
from tracer.lang.typed import MapDecl
from tracer.lang.types import IntType, StringType, Value as Held
from tracer.lang.walk import added_to
from tracer.plan.model import Plan
from tracer.steps import model as steps
from tracer.steps.model import Let, MapAdd, Require, Update
from tracer.steps.values import Const, SiteText, Value
from tracer.steps.walk import parts, used

NOT_ALONE = "another clause at the same place runs in user space"


class _No(Exception):
    """Why a clause stays in user space; `map`, where one of its maps is the reason."""

    map: str | None = None


class _Together(_No):
    """Why a clause stays in user space, where several of its maps together are the reason."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the event, and whether it is read as signed."""

    name: str
    signed: bool


def choose(
    plan: Plan, uses: Uses, runs: Sequence[Run], source_of: Sequence[SourceOf], fetches: tuple[Fetch, ...]
) -> tuple[tuple[Trigger, ...], tuple[tuple[str, str], ...]]:
    """The triggers that do all clauses of a place; or none, and for each map that a clause aggregates the reason."""
    triggers: dict[object, Trigger] = {}
    reasons: dict[int, _No] = {}
    for number, (run, source) in enumerate(zip(runs, source_of, strict=True)):
        try:
            for trigger in _Clause(plan, uses, run, source, fetches).triggers():
                same = (trigger.keys, trigger.sums, trigger.condition)
                held = triggers.setdefault(same, trigger)
                if held is not trigger:
                    rows, feeds = max(held.rows, trigger.rows), (held.feeds[0] + trigger.feeds[0],)
                    triggers[same] = Trigger(*same, rows, feeds)
        except _No as error:
            reasons[number] = error
    if not reasons:
        return tuple(triggers.values()), ()
    return (), tuple(
        (name, _reason(name, reasons.get(number))) for number, run in enumerate(runs) for name in added_to(run.clause)
    )


def _reason(name: str, refusal: _No | None) -> str:
    """Why a map stays in user space, by what was found about its clause."""
    if refusal is None:
        return NOT_ALONE
    return str(refusal) if refusal.map in (None, name) else f"as {refusal.map} of its clause is ({refusal})"


@dataclass(slots=True)
class _Clause:
    """A clause at places that fetch the same."""

    plan: Plan
    uses: Uses
    run: Run
    source_of: SourceOf
    fetches: tuple[Fetch, ...]
    keys: list[str] = field(default_factory=list)
    sums: list[str] = field(default_factory=list)
    columns: set[int] | None = None

    def triggers(self) -> list[Trigger]:
        """The triggers of the clause alone. Raises `_No`."""
        if self.uses.exits:
            raise _No("a probe says exit(), and hits after it must not count")
        statements = []
        needed = {part for step in self.run.steps.body for value in used(step) for part in parts(value)}
        for step in self.run.steps.body:
            if adds(step):
                statements.append(step)
            elif not isinstance(step, (Require, Let)) and not (isinstance(step, steps.Fetch) and step.name in needed):
                raise _No("its clause does more than aggregate")
        condition = self._condition()
        if len(statements) == 1 and _is_histogram(self._decl(statements[0])):
            triggers = list(self._histogram(statements[0], condition))
            if any(len(trigger.action("continue")) > LONGEST for trigger in triggers):
                raise _No("with its predicate the kernel's condition would be too long")
            return triggers
        feeds = tuple(map(self._feed_of, statements))
        rows = max((self._rows(statement) for statement in statements), default=1)
        return [Trigger(tuple(self.keys), tuple(self.sums), condition, rows, (feeds,))] if feeds else []

    def _condition(self) -> str:
        if not any(isinstance(step, Require) for step in self.run.steps.body):
            return ""
        pushed, _ = push_down(self.run.steps, self.source_of, self.fetches)
        if pushed is None or not pushed.whole:
            raise _No("the kernel does not take the whole predicate")
        return pushed.text

    def _decl(self, statement: Update | MapAdd) -> MapDecl:
        return self.plan.program.maps[statement.map]

    def _feed_of(self, statement: Update | MapAdd) -> Feed:
        try:
            return self._feed(statement)
        except _Together:
            raise
        except _No as error:
            error.map = statement.map
            raise

    def _feed(self, statement: Update | MapAdd) -> Feed:
        decl = self._decl(statement)
        self._check(statement, decl)
        if _is_histogram(decl):
            raise _Together(f"its clause has other maps beside {_named(decl)}")
        key = self._key(statement)
        columns = {part.index for part in key if isinstance(part, Column)}
        if self.columns not in (None, columns):
            raise _Together("the maps of its clause have different keys")
        self.columns = columns
        if statement.value is None:
            return Feed(statement.map, key)
        value = self._part(statement.value, "a sum")
        if isinstance(value, int):
            return Feed(statement.map, key, per_hit=value)
        if not isinstance(value, _Field) or value.name in (THREAD, CPU):
            raise _No("a sum of something that is no field of the event")
        if value.name not in self.sums:
            self.sums.append(value.name)
        if len(self.sums) > MOST_SUMS:
            raise _Together(f"its clause sums more than {MOST_SUMS} values")
        return Feed(statement.map, key, total=self.sums.index(value.name))

    def _key(self, statement: Update | MapAdd) -> tuple[Column | Held, ...]:
        columns: list[Column | Held] = []
        for expr in statement.key:
            part = self._part(expr, "a key")
            if not isinstance(part, _Field):
                columns.append(part)
                continue
            if part.name not in self.keys:
                self.keys.append(part.name)
            columns.append(Column(self.keys.index(part.name), part.signed))
        if len(self.keys) > MOST_KEYS:
            raise _No(f"more than {MOST_KEYS} keys")
        return tuple(columns)

    def _part(self, value: Value, role: str) -> _Field | int | bytes:
        """A field or a constant. Raises `_No`."""
        type, inner = value.type, plain(value)
        match inner:
            case Const(value=bytes() as text):
                return text
            case Const(value=int(number)) if isinstance(type, IntType):
                return wrap_int(number, type.bits, type.signed)
            case SiteText(name=name):
                return self.run.variant.told[name]
        if isinstance(type, StringType):
            raise _No(f"{role} of a string: the kernel pads and cuts it")
        source = self.source_of(inner)
        match source:
            case Number(fetch=number, guard=None) if is_word(type):
                return _Field(f"f{number}", isinstance(type, IntType) and type.signed)
            case Known(value=int(number)) if isinstance(type, IntType):
                return wrap_int(number, type.bits, type.signed)
            case FromSample(name="tid"):
                return _Field(THREAD, False)
            case FromSample(name="cpu"):
                return _Field(CPU, False)
            case FromSample(name=name):
                raise _No(f"{role} of {name}, which is no field of the event")
            case Number() if is_word(type):
                raise _No(f"{role} of memory: where it cannot be read the kernel would count it all the same")
            case Known(value=None):
                raise _No(f"{role} of an argument that cannot be read here")
        raise _No(f"{role} of a computed value")

    def _check(self, statement: Update | MapAdd, decl: MapDecl) -> None:
        """Whether a map can be in the kernel at all."""
        name = statement.map
        if kept_of(decl).counted is None and not _is_histogram(decl):
            raise _No(f"the kernel has no {decl.kind}() like this one")
        if name in self.uses.by_probes:
            raise _No("a probe does more with the map than add to it")
        if decl.kind == "scalar" and not isinstance(decl.value, IntType):
            raise _No("it is not a number")
        if all(isinstance(part, (Const, SiteText)) for part in statement.key):
            return
        if decl.forgets:
            raise _No("it drops old keys when it is full")
        limit = self.plan.program.most_keys(name)
        if limit & (limit - 1) or not LEAST_ROWS <= limit <= MOST_ROWS:
            raise _No(f"max_map_keys is not a power of two from {LEAST_ROWS} to {MOST_ROWS}")
        if name in self.uses.emptied:
            raise _No("it is cleared or deleted from, and the kernel cannot remove a single row")

    def _rows(self, statement: Update | MapAdd) -> int:
        """The rows that a trigger with the keys so far can need: what the map has room for."""
        return self.plan.program.most_keys(statement.map) if self.keys else 1

    def _histogram(self, statement: Update | MapAdd, condition: str) -> Iterator[Trigger]:
        """The triggers of a histogram, of which each hit meets one."""
        decl = self._decl(statement)
        self._check(statement, decl)
        key = self._key(statement)
        assert statement.value is not None
        value = self._part(statement.value, _named(decl))
        if not isinstance(value, _Field) or value.name in (THREAD, CPU):
            raise _No(f"{_named(decl)} of something that is no field of the event")
        type, even = self.fetches[int(value.name[1:])].type, _even(decl)
        if even is not None and (even[0] < 0 or even[0] % even[2]):
            raise _No("lhist() does not begin at a multiple of its step from 0 on")
        if len(self.keys) == MOST_KEYS:
            raise _No(f"more than {MOST_KEYS - 1} keys beside the bucket")
        rows = self._rows(statement)
        parts = tuple(doubling(value.name, type) if even is None else linear(value.name, type, *even))
        buckets = max(part.rows for part in parts)
        if rows * buckets > MOST_ROWS:
            raise _No(f"max_map_keys times {buckets} buckets is more than the kernel's {MOST_ROWS} rows")
        for part in parts:
            text = " && ".join(filter(None, (condition, part.condition)))
            column = () if part.column is None else (part.column,)
            bucket = Column(len(self.keys), False) if column else part.bucket
            feeds = ((Feed(statement.map, key, bucket=bucket),),)
            yield Trigger((*self.keys, *column), (), text, rows * part.rows, feeds)


def _named(decl: MapDecl) -> str:
    return f"{'an' if decl.kind.startswith('l') else 'a'} {decl.kind}()"


def _is_histogram(decl: MapDecl) -> bool:
    """Whether its buckets are such that triggers find them."""
    buckets = buckets_of(decl)
    return buckets is not None and (buckets.even is not None or buckets.doubles(*buckets.of(decl)))


def _even(decl: MapDecl) -> tuple[int, int, int] | None:
    """The low end, the high end and the step of a histogram whose buckets are of one width."""
    buckets = buckets_of(decl)
    return None if buckets is None or buckets.even is None else buckets.even(*buckets.of(decl))
