"""Clauses of spans: each becomes one that runs at the start and one that runs at the end, as those of calls do.

What has started is noted under the thread, or under the key that both probes compute, and under how many are under way
there: another map has that number. An end is that of the last that has started. So spans of a thread may lie inside
each other, and one that never ends is in nobody's way: it stays where it is.
"""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Diagnostic, ProgramError
from tracer.lang.typed import (
    Binary,
    Builtin,
    Calls,
    Clause,
    Delete,
    Expr,
    If,
    IntLit,
    MapAdd,
    MapDecl,
    MapGet,
    MapSet,
    Program,
    Return,
    Stmt,
    TupleExpr,
    Until,
    Var,
    VarSet,
)
from tracer.lang.types import BOOL, UINT64
from tracer.plan.calls.reads import BEGAN, Reads, inner_map, word

_VALUES = ("duration", "depth")


def with_spans(program: Program) -> Program:
    """The program, whose clauses of spans are two each. Raises `ProgramError` for what such a clause cannot read."""
    clauses: list[Clause] = []
    maps, kept = dict(program.maps), [*program.calls]
    exits: list[Clause] = []
    faults: list[Diagnostic] = []
    fresh = 1 + max(clause.id for clause in program.clauses)
    for clause in program.clauses:
        if clause.until is None:
            clauses.append(clause)
            continue
        span = _Span(clause, clause.until, faults)
        both = [span.start(), span.end(fresh)]
        fresh += 1
        # Where a hit is of both it ends the span before it, and then starts another.
        shared = {site.spot for site in clause.sites} & {site.spot for site in clause.until.sites}
        clauses += reversed(both) if shared else both
        maps.update({decl.name: decl for decl in span.maps()})
        kept.append(span.calls())
        if clause.exits:
            exits.append(span.exit(fresh))
            fresh += 1
    if faults:
        raise ProgramError(program.source, sorted(faults, key=lambda fault: fault.span.start))
    return replace(program, clauses=(*clauses, *exits), maps=maps, calls=tuple(kept))


class _Span:
    """A clause of a span, in two. `faults` gets what it cannot read."""

    def __init__(self, clause: Clause, until: Until, faults: list[Diagnostic]) -> None:
        self._clause, self._until, self._span = clause, until, clause.span
        self._reads = Reads(clause, faults, _VALUES, span=True)
        starts, ends = until.keys
        thread = (Builtin(UINT64, self._span, "tid"),)
        self._starts, self._ends = starts or thread, ends or thread
        self._levels = f"@ spans under way of clause {clause.id}"

    def calls(self) -> Calls:
        """The maps and names that are kept for the spans of the clause."""
        named = f"{self._clause.names[0]}..{self._until.name}"
        read = tuple([(value.span, value.type) for value in (*self._reads.noted, *self._reads.read)])
        number, memory = self._clause.id, bool(self._reads.read)
        return Calls(
            f"@ open spans of clause {number}", f"@ memory spans of clause {number}" if memory else "",
            f"@ unseen spans of clause {number}",
            f"@ left spans of clause {number}" if self._clause.exits else "", (named,), read, len(self._reads.noted),
            is_span=True, keys=tuple([(part.span, part.type) for part in self._until.keys[0]]),
        )  # fmt: skip

    def maps(self) -> list[MapDecl]:
        """The maps of the clause."""
        calls, key, span = self.calls(), tuple([part.type for part in self._starts]), self._span
        decls = [inner_map(calls.open, (*key, UINT64), self._reads.note_type, span)]
        decls.append(inner_map(self._levels, key, UINT64, span))
        if calls.memory:
            decls.append(inner_map(calls.memory, (*key, UINT64), self._reads.memory_type, span))
        return decls + [inner_map(name, (), UINT64, span) for name in (calls.unseen, calls.abandoned) if name]

    def start(self) -> Clause:
        """The clause that notes a start."""
        span, calls = self._span, self.calls()
        level = Var(UINT64, span, 0, "$level")
        key = (*self._starts, level)
        noted = TupleExpr(self._reads.note_type, span, (Builtin(UINT64, span, "nsecs"), *self._reads.noted))
        steps: list[Stmt] = [
            VarSet(span, 0, MapGet(UINT64, span, self._levels, self._starts)),
            MapSet(span, calls.open, key, noted),
            MapSet(span, self._levels, self._starts, word("+", level, self._number(1))),
        ]  # fmt: skip
        steps += self._reads.kept(calls.memory, key, span)
        return replace(self._clause, predicate=None, body=tuple(steps), slots=(UINT64,), until=None)

    def end(self, number: int) -> Clause:
        """The clause, of that number, that finds the start and does what the user wrote."""
        span, calls, reads = self._span, self.calls(), self._reads
        level, ended = (Var(UINT64, span, slot, "$") for slot in (reads.values["depth"], reads.ended))
        key = (*self._ends, level)
        none = Binary(BOOL, span, "==", level, self._number(0))
        unseen = (MapAdd(span, calls.unseen, (), self._number(1)), Return(span))
        fewer: tuple[Stmt, ...] = (MapSet(span, self._levels, self._ends, level),)
        steps: list[Stmt] = [
            VarSet(span, reads.ended, Builtin(UINT64, span, "nsecs")),
            VarSet(span, level.slot, MapGet(UINT64, span, self._levels, self._ends)),
            If(span, none, unseen, ()),
            VarSet(span, level.slot, word("-", level, self._number(1))),
            If(span, none, (Delete(span, self._levels, self._ends),), fewer),
            *reads.taken(calls.open, key, reads.record, span), *reads.taken(calls.memory, key, reads.memory, span),
        ]  # fmt: skip
        taken = word("-", ended, reads.typed(reads.part(BEGAN, span)))
        steps.append(VarSet(span, reads.values["duration"], taken))
        slots = (*self._clause.slots, *reads.slots)
        return replace(
            self._clause, id=number, kind=self._until.kind, names=(self._until.name,), spans=(self._until.span,),
            sites=self._until.sites, predicate=None, body=(*steps, *reads.asked), slots=slots, until=None, closes=True,
            written=self._clause.as_written,
        )  # fmt: skip

    def exit(self, number: int) -> Clause:
        """The clause, of that number, that forgets what a thread has started and not ended as it ends."""
        from tracer.plan.calls.exits import at_exit

        return at_exit(self._clause, number, self.calls(), self._levels, self._starts)

    def _number(self, value: int) -> Expr:
        return IntLit(UINT64, self._span, value)
