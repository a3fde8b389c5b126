"""Clauses of calls: each becomes one that runs where a call begins and one that runs where it ends.

The first notes in a map of tracer's own when the call began, its arguments, and what the clause reads in memory. The
second finds the note, deletes it, and does what the user wrote. They are ordinary clauses, so both backends do the
same.

A note is found by the thread, the function, and the place of the return address on the stack, which is the stack
pointer at the entry and at a `ret`; a return probe sees it 8 bytes higher. Of Go it is the goroutine in place of the
thread, and the distance to the end of its stack: both stay as they are when it goes on elsewhere. No two calls under
way share a note, at any depth and on any stack: of a signal handler, a fiber, a child of vfork(). A call that an
exception or longjmp() leaves has no end. Its note stays until another call takes its place, which shows that it has
gone, or until the end.

`depth` asks for the calls of a function that lie around it: each note has the place of the one around it, and another
map that of the innermost. Notes at or below a new call on the stack are of calls that were left, and are passed over.
"""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Diagnostic, ProgramError, Span
from tracer.kinds.site import POPPED, STACK_POINTER, TAIL_OF, FileSite, in_files
from tracer.lang.typed import (
    Arg,
    Binary,
    Builtin,
    Call,
    Calls,
    Clause,
    Delete,
    Expr,
    Find,
    HasKey,
    If,
    IntLit,
    Load,
    MapAdd,
    MapDecl,
    MapGet,
    MapSet,
    Program,
    Return,
    Stmt,
    StrLit,
    TupleExpr,
    TupleItem,
    Unary,
    Var,
    VarSet,
    While,
)
from tracer.lang.types import BOOL, UINT64, StringType
from tracer.plan.calls.reads import AROUND, Reads, inner_map, word
from tracer.plan.calls.times import Times, asks, codes, pair_of

_STACK_END = 8
"""Where a goroutine says where its stack ends (runtime.g, stack.hi)."""


def with_calls(program: Program) -> Program:
    """The program, whose clauses of calls are two each. Raises `ProgramError` for what such a clause cannot read."""
    if not any(site.ends for clause in program.clauses for site in in_files(clause.sites)):
        return program
    clauses: list[Clause] = []
    maps = dict(program.maps)
    calls, exits = list[Calls](), list[Clause]()
    faults: list[Diagnostic] = []
    fresh = 1 + max(clause.id for clause in program.clauses)
    timing = _Timing(program)
    for clause in program.clauses:
        if not any(site.ends for site in in_files(clause.sites)):
            clauses.append(clause)
            continue
        split = _Split(clause, fresh, timing, faults)
        clauses += split.clauses()
        maps.update({decl.name: decl for decl in split.maps()})
        calls.append(split.calls())
        fresh += 1
        if clause.exits:
            from tracer.plan.calls.exits import beyond_calls

            exits.append(beyond_calls(clause, fresh, calls[-1].innermost, len(calls[-1].functions)))
            fresh += 1
    if faults:
        raise ProgramError(program.source, sorted(faults, key=lambda fault: fault.span.start))
    return replace(program, clauses=(*clauses, *exits), maps=maps, calls=tuple(calls), call_probes=tuple(timing.pairs))


class _Timing:
    """What the clauses of calls of a program have to do so that all know how long calls took. `counted`, `told`: see
    `Times`. `pairs` are the probes of calls that differ in what they cost, by number.
    """

    def __init__(self, program: Program) -> None:
        of_calls = [clause for clause in program.clauses if any(site.ends for site in in_files(clause.sites))]
        asking = any(map(asks, of_calls))
        sites = {site.place: site for clause in of_calls for site in in_files(clause.sites)} if asking else {}
        ends = [kind for site in sites.values() for kind, _, _ in site.ends]
        inside = len(sites) > 1 or "ret" in ends or any(site.nests for site in sites.values())
        self.counted = asking and inside
        self.told = self.counted and any(asks(clause, ("self_time",)) for clause in of_calls)
        # A function may have several names in a clause, each with a note of its own.
        self._last = {
            site.place: (clause.id, site.function) for clause in of_calls for site in in_files(clause.sites)
        }
        self.pairs: dict[tuple[str, bool], int] = {}
        self._codes = dict(zip(sites, codes([*sites.values()]), strict=True)) if asking else {}

    def pair(self, clause: Clause, entry: FileSite, end: str) -> int:
        """The number of the pair of probes, and in the last bit whether the clause and name are the last of the
        function: it stands in `Site.tail` behind the number of the function.
        """
        if not self._codes:
            return 0
        pair = pair_of(entry, end, self._codes[entry.place])
        is_last = self._last[entry.place] == (clause.id, entry.function)
        return self.pairs.setdefault(pair, len(self.pairs)) << 1 | is_last


class _Split:
    """A clause of calls, in two. `faults` gets what it cannot read."""

    def __init__(self, clause: Clause, fresh: int, timing: _Timing, faults: list[Diagnostic]) -> None:
        self._clause, self._fresh, self._faults, self._timing = clause, fresh, faults, timing
        self._span = clause.span
        kinds = {site.goroutine for site in in_files(clause.sites)}
        self._goroutine = kinds == {True}
        if len(kinds) > 1:
            what = "calls of Go and of other languages are told apart in different ways"
            faults.append(Diagnostic(what, clause.spans[0], "write a clause for each"))
        self._reads = Reads(clause, faults, counted=timing.counted)
        self._times = Times(clause, self._reads, self._whose(), timing.counted, timing.told, 3)
        functions: dict[tuple[object, str], int] = {}
        self._numbers = [
            functions.setdefault((site.place, site.function), len(functions)) for site in in_files(clause.sites)
        ]
        self._functions = tuple(function for _, function in functions)

    def clauses(self) -> tuple[Clause, Clause]:
        clause = self._clause
        begin = replace(
            clause, predicate=None, body=self._beginning(),
            slots=(UINT64, UINT64, self._reads.note_type, *self._times.slots), sites=self._entries(),
            written=clause.as_written,
        )  # fmt: skip
        slots = (*clause.slots, *self._reads.slots, *self._times.slots)
        end = replace(
            clause, id=self._fresh, predicate=None, body=self._ending(), slots=slots, sites=self._ends(),
            ends=clause.id,
        )  # fmt: skip
        return begin, end

    def maps(self) -> list[MapDecl]:
        calls, key, span = self.calls(), (UINT64,) * (3 + self._goroutine), self._span
        decls = [inner_map(calls.open, key, self._reads.note_type, span)]
        decls += [inner_map(name, (), UINT64, span) for name in (calls.unseen, calls.abandoned)]
        if calls.memory:
            decls.append(inner_map(calls.memory, key, self._reads.memory_type, span))
        if calls.innermost:
            decls.append(inner_map(calls.innermost, key[:-1], UINT64, span))
        return decls + self._times.maps()

    def calls(self) -> Calls:
        """The maps and names that are kept for the calls of the clause."""
        read = tuple([(expression.span, expression.type) for expression in (*self._reads.noted, *self._reads.read)])
        memory = self._name("memory") if self._reads.read else ""
        return Calls(
            self._name("open"), memory, self._name("unseen"), self._name("left"),
            self._functions, read, len(self._reads.noted), self._goroutine,
            innermost=self._name("innermost") if self._reads.deep else "",
        )  # fmt: skip

    def _name(self, what: str) -> str:
        return f"@ {what} calls of clause {self._clause.id}"

    # --- the two clauses ---

    def _entries(self) -> tuple[FileSite, ...]:
        sites = []
        for site, number in zip(in_files(self._clause.sites), self._numbers, strict=True):
            tail = number << 16 | self._timing.pair(self._clause, site, site.ends[0][0]) << 8
            sites.append(replace(site, kind="uprobe", tail=tail, ends=()))
        return tuple(sites)

    def _ends(self) -> tuple[FileSite, ...]:
        sites = []
        for site, number in zip(in_files(self._clause.sites), self._numbers, strict=True):
            for kind, address, offset in site.ends:
                tail = number << 16 | self._timing.pair(self._clause, site, kind) << 8
                end = replace(site, kind=kind, address=address, offset=offset, args=(), tail=tail, ends=())
                sites.append(replace(end, red_zone=False))
        return tuple(sites)

    def _whose(self) -> tuple[Expr, ...]:
        thread, process = (Builtin(UINT64, self._span, name) for name in ("tid", "pid"))
        return (process, self._own_goroutine()) if self._goroutine else (thread,)

    def _key(self, place: Expr) -> tuple[Expr, ...]:
        return *self._whose(), word(">>", Arg(UINT64, self._span, TAIL_OF), _number(8, self._span)), place

    def _place(self, pointer: Expr) -> Expr:
        """The place of a return address on a stack, of which one of Go keeps the distance to its end as it moves."""
        if not self._goroutine:
            return pointer
        end = word("+", self._own_goroutine(), _number(_STACK_END, self._span))
        return word("-", pointer, Load(UINT64, self._span, end))

    def _own_goroutine(self) -> Expr:
        return Call(UINT64, self._span, "reg", (StrLit(StringType(4), self._span, b"r14"),))

    def _beginning(self) -> tuple[Stmt, ...]:
        span, calls = self._span, self.calls()
        here = self._place(Arg(UINT64, span, STACK_POINTER))
        key = self._key(here)
        gone: tuple[Stmt, ...] = (MapAdd(span, calls.abandoned, (), _number(1, span)),)
        if calls.memory:
            gone = (*gone, Delete(span, calls.memory, key))
        steps: list[Stmt] = [If(span, HasKey(BOOL, span, calls.open, key), gone, ())]
        parts: list[Expr] = [Builtin(UINT64, span, "nsecs")]
        if self._reads.deep:
            around, depth = Var(UINT64, span, 0, "$around"), Var(UINT64, span, 1, "$depth")
            note = Var(self._reads.note_type, span, 2, "$note")
            innermost, there = self._name("innermost"), Find(BOOL, span, calls.open, self._key(around), 2)
            one_out = VarSet(span, 0, TupleItem(UINT64, span, note, 1))
            deeper = VarSet(span, 1, word("+", TupleItem(UINT64, span, note, 2), _number(1, span)))
            below_here = Binary(BOOL, span, "<=", around, here)
            is_one = Binary(BOOL, span, "!=", around, _number(0, span))
            steps += [
                VarSet(span, 0, MapGet(UINT64, span, innermost, key[:-1])),
                While(
                    span, Binary(BOOL, span, "&&", is_one, below_here),
                    (If(span, there, (one_out,), (VarSet(span, 0, _number(0, span)),)),),
                ),
                VarSet(span, 1, _number(0, span)),
                If(span, is_one, (If(span, there, (deeper,), ()),), ()),
                MapSet(span, innermost, key[:-1], here),
            ]  # fmt: skip
            parts += [around, depth]
        steps += self._times.look()
        noted = TupleExpr(self._reads.note_type, span, (*parts, *self._times.parts(), *self._reads.noted))
        steps += [MapSet(span, calls.open, key, noted), *self._times.begun()]
        return (*steps, *self._reads.kept(calls.memory, key, span))

    def _ending(self) -> tuple[Stmt, ...]:
        span, calls = self._span, self.calls()
        place = self._place(word("-", Arg(UINT64, span, STACK_POINTER), Arg(UINT64, span, POPPED)))
        key = self._key(place)
        unseen = (MapAdd(span, calls.unseen, (), _number(1, span)), Return(span))
        there: Expr = Find(BOOL, span, calls.open, key, self._reads.record)
        steps: list[Stmt] = [
            VarSet(span, self._reads.ended, Builtin(UINT64, span, "nsecs")),
            If(span, Unary(BOOL, span, "!", there), unseen, ()), Delete(span, calls.open, key),
        ]  # fmt: skip
        if self._reads.deep:
            innermost = self._name("innermost")
            inside = Binary(BOOL, span, "<=", MapGet(UINT64, span, innermost, key[:-1]), place)
            around = self._reads.typed(self._reads.part(AROUND, span))
            is_one = Binary(BOOL, span, "!=", around, _number(0, span))
            out = If(span, is_one, (MapSet(span, innermost, key[:-1], around),), (Delete(span, innermost, key[:-1]),))
            steps.append(If(span, inside, (out,), ()))
        steps += self._times.ended()
        return (*steps, *self._reads.taken(calls.memory, key, self._reads.memory, span), *self._reads.asked)


def _number(value: int, span: Span) -> Expr:
    return IntLit(UINT64, span, value)
