"""How long calls took: `duration`, less what probes took of it (`probe_time`), and `self_time`.

A map has two sums for each thread (of Go for each goroutine), which only grow: what the probes of calls have taken
there, and the `self_time` of the calls that have ended. A call notes both as it begins. What they have grown by at its
end is the time that others have: no list of the calls around it is needed, so it makes no difference which function
or clause they are of, on which stack they run, or that some were left. The time of a call that was left is its
caller's.

What a probe takes is measured beforehand, in another process (`kernel.trials.call_cost`), and put into a map before
anything is attached: what a whole probe at the entry takes, one at the end, and what two take of the call between them.
The last clause that has a function adds it up, since at each hit the clauses run in order.

Where no call can be inside another nothing is added up.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.dataclass import replace
from tracer.kinds.site import TAIL_OF, FileSite
from tracer.lang.typed import (
    Arg,
    Binary,
    Builtin,
    Clause,
    Delete,
    Expr,
    Find,
    If,
    IntLit,
    MapDecl,
    MapGet,
    MapSet,
    Stmt,
    Ternary,
    TupleExpr,
    TupleItem,
    Var,
    VarSet,
)
from tracer.lang.types import BOOL, UINT64, TupleType
from tracer.lang.walk import walk_clause
from tracer.plan.calls.reads import BEGAN, SPENT, TIMES, TOLD, Reads, word

COSTS = "@ cost of the probes of calls"
"""The map of what they take, by the number of a pair of probes (`Program.call_probes`): the parts of `packed`, as one
number is found in one step.
"""
BETWEEN, AT_ENTRY, AT_END = range(3)
_BITS = 21
_MOST_NS = (1 << _BITS) - 1

SUMS = TupleType((UINT64, UINT64))
_MOST_THREADS = 1 << 14


def packed(costs: Sequence[int]) -> int:
    """What probes take as the map has it, in ns: between them, the one at the entry, the one at the end."""
    return sum(min(ns, _MOST_NS) << _BITS * part for part, ns in enumerate(costs))


def asks(clause: Clause, names: Sequence[str] = TIMES) -> bool:
    """Whether a clause asks how long calls took."""
    return any(isinstance(node, Builtin) and node.name in names for node in walk_clause(clause))


def pair_of(entry: FileSite, end: str, code: bytes) -> tuple[str, bool]:
    """What the cost of a call's probes depends on: the instruction of the entry, and whether a return probe ends it."""
    from tracer.kernel.trials.hit_cost import instruction_like

    return instruction_like(code), replace(entry, kind=end).is_return_probe


def codes(entries: Sequence[FileSite]) -> list[bytes]:
    """The code at entries, b"" where it cannot be read."""
    from tracer.kernel.trials.instructions import codes_of

    try:
        return codes_of(entries)
    except OSError:
        return [b""] * len(entries)


class Times:
    """The statements of a clause about times. `whose` is the key of its thread; `counted`: calls may be inside
    another, and some clause asks for times; `told`: some clause asks for `self_time`. `slot` is one of the beginning.
    """

    def __init__(
        self, clause: Clause, reads: Reads, whose: tuple[Expr, ...], counted: bool, told: bool, slot: int
    ) -> None:
        self._span, self._reads, self._whose, self._told = clause.span, reads, whose, told
        self.counted = counted
        self._timed = asks(clause) or (counted and told)
        self._begun = slot
        self._sums = max(reads.values.values()) + 1
        self._map = f"@ time in calls of {'goroutines' if len(whose) > 1 else 'threads'}"

    @property
    def slots(self) -> tuple[TupleType, ...]:
        """The types of the variables that the end needs behind those of `Reads`."""
        return (SUMS,) * self.counted

    def maps(self) -> list[MapDecl]:
        """Those of the whole program."""
        decls = []
        if self._timed or self.counted:
            decls.append(MapDecl(COSTS, (UINT64,), "scalar", UINT64, self._span, (), 1 << 7, inner=True))
        if self.counted:
            key = (UINT64,) * len(self._whose)
            sums = MapDecl(self._map, key, "scalar", SUMS, self._span, (), _MOST_THREADS, forgets=True, inner=True)
            decls.append(sums)
        return decls

    def look(self) -> tuple[Stmt, ...]:
        """As a call begins, before it is noted."""
        nothing = TupleExpr(SUMS, self._span, (self._number(0), self._number(0)))
        return self._find(self._begun, nothing) if self.counted else ()

    def parts(self) -> list[Expr]:
        """The parts of the note."""
        return [self._item(self._begun, part) for part in (0, 1)] if self.counted else []

    def begun(self) -> tuple[Stmt, ...]:
        """Behind that."""
        if not self.counted:
            return ()
        spent = word("+", self._item(self._begun, 0), self._entry())
        sums = TupleExpr(SUMS, self._span, (spent, self._item(self._begun, 1)))
        return (If(self._span, self._is_last(), (MapSet(self._span, self._map, self._whose, sums),), ()),)

    def ended(self) -> tuple[Stmt, ...]:
        """As a call ends, once its note is found."""
        span, part = self._span, self._reads.part
        steps: list[Stmt] = []
        if self.counted:
            steps += self._find(self._sums, TupleExpr(SUMS, span, (part(SPENT, span), part(TOLD, span))))
        duration, alone, probes = (Var(UINT64, span, self._reads.values[name], f"${name}") for name in TIMES)
        if self._timed:
            taken = self._cost(BETWEEN)
            if self.counted:
                # The sum has the whole probe of the call's entry.
                spent = word("+", self._item(self._sums, 0), taken)
                taken = self._less(spent, word("+", part(SPENT, span), self._entry()))
            whole = word("-", Var(UINT64, span, self._reads.ended, "$ended"), part(BEGAN, span))
            child = self._less(self._item(self._sums, 1), part(TOLD, span)) if self.counted else self._number(0)
            steps += [
                VarSet(span, probes.slot, taken), VarSet(span, duration.slot, self._less(whole, probes)),
                VarSet(span, probes.slot, word("-", whole, duration)),
                VarSet(span, alone.slot, child), VarSet(span, alone.slot, self._less(duration, alone)),
            ]  # fmt: skip
        if self.counted:
            told = self._item(self._sums, 1)
            told = word("+", told, alone) if self._told else told
            spent = word("+", self._item(self._sums, 0), self._cost(AT_END))
            more = MapSet(span, self._map, self._whose, TupleExpr(SUMS, span, (spent, told)))
            outermost = Binary(BOOL, span, "==", part(SPENT, span), self._number(0))
            last = If(span, outermost, (Delete(span, self._map, self._whose),), (more,))
            steps.append(If(span, self._is_last(), (last,), ()))
        return tuple([self._reads.typed(step) for step in steps])

    def _find(self, slot: int, otherwise: Expr) -> tuple[Stmt, ...]:
        there = Find(BOOL, self._span, self._map, self._whose, slot)
        return (If(self._span, there, (), (VarSet(self._span, slot, otherwise),)),)

    def _item(self, slot: int, part: int) -> Expr:
        return TupleItem(UINT64, self._span, Var(SUMS, self._span, slot, "$sums"), part)

    def _entry(self) -> Expr:
        """What the probe at the entry takes, and never 0: what has begun shows."""
        return word("|", self._cost(AT_ENTRY), self._number(1))

    def _cost(self, of: int) -> Expr:
        pair = word("&", word(">>", Arg(UINT64, self._span, TAIL_OF), self._number(1)), self._number(0x7F))
        costs = MapGet(UINT64, self._span, COSTS, (pair,))
        return word("&", word(">>", costs, self._number(_BITS * of)), self._number(_MOST_NS))

    def _is_last(self) -> Expr:
        last = word("&", Arg(UINT64, self._span, TAIL_OF), self._number(1))
        return Binary(BOOL, self._span, "!=", last, self._number(0))

    def _less(self, left: Expr, right: Expr) -> Expr:
        """The difference, which is not less than 0."""
        more = Binary(BOOL, self._span, ">", left, right)
        return Ternary(UINT64, self._span, more, word("-", left, right), self._number(0))

    def _number(self, value: int) -> Expr:
        return IntLit(UINT64, self._span, value)
