"""Random typed programs of one probe clause, from a seed: everything that may stand in a probe."""

from __future__ import annotations

import random

from tests.proof.expressions import Expressions
from tests.typed_ir import N, num, program
from tracer.dataclass import replace
from tracer.kinds.model import AT_HITS
from tracer.lang import features, typed
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT8,
    IntType,
    StackType,
    SymbolType,
    TimestampType,
    TupleType,
    Type,
    UsernameType,
)
from tracer.plan.lower import lower
from tracer.plan.model import Plan

FORMATS = ("%d", "%s")


def make_plan(rng: random.Random, points: list[int]) -> Plan:
    """A program that BCC takes, and its plan."""
    while True:
        plan = lower(Statements(rng, points).program())
        if not refused(plan):
            return plan


def refused(plan: Plan) -> bool:
    """Whether BCC takes a program of these not."""
    return any(need.feature in (features.KEYS_OF_CLEARED, features.MAP_WALK_CHANGED) for need in plan.needs)


class Statements(Expressions):
    """The clause of one program."""

    def program(self) -> typed.Program:
        self.shapes: list[Type] = [self.type(1) for _ in range(2)]
        body = self.body(2, False, self.rng.randint(1, 4))
        slots, self.slots = self.slots, []  # a predicate has no variables
        predicate = self.truth(2) if self.chance(0.3) else None
        names = ("uprobe:/bin/shop:*",)
        clause = typed.Clause(0, AT_HITS, names, predicate, body, tuple(slots), N, self.sites, spans=(N,))
        # Native code has no unwind rules: tests/live compares what these find.
        config = typed.Config(max_map_keys=2 if self.few else 16384, stack_unwind="fp")
        return program([clause], self.maps, FORMATS, self.shapes, config)

    def body(self, depth: int, in_loop: bool, count: int | None = None) -> tuple[typed.Stmt, ...]:
        return tuple(self.statement(depth, in_loop) for _ in range(self.rng.randint(0, 3) if count is None else count))

    def statement(self, depth: int, in_loop: bool) -> typed.Stmt:
        size = max(depth, 1)
        kinds = ["variable"] * 3 + ["map"] * 6 + ["delete", "expression", "printf", "printf", "value", "rare"]
        if depth > 0:
            kinds += ["if", "if", "while", "range", "each"]
        match self.rng.choice(kinds):
            case "variable":
                slot = self.rng.randrange(len(self.slots))
                return typed.VarSet(N, slot, self.expr(self.slots[slot], size))
            case "map":
                return self.update(self.rng.choice(self.maps), size)
            case "delete":
                decl = self.rng.choice(self.maps)
                return typed.Delete(N, decl.name, self.key(decl, 1))
            case "expression":
                return typed.ExprStmt(N, self.expr(self.rng.choice([INT64, *self.slots]), size))
            case "printf":
                types = [self.key_part() for _ in range(self.rng.randint(0, 3))]
                shown = [self.expr(type, size) for type in types]
                shown += [self.float] if self.float is not None and self.chance(0.5) else []
                return typed.Printf(N, self.rng.randrange(2), tuple(shown))
            case "value":
                shape = self.rng.randrange(len(self.shapes))
                return typed.PrintValue(N, shape, self.expr(self.shapes[shape], size))
            case "if":
                then, otherwise = self.body(depth - 1, in_loop), self.body(depth - 1, in_loop)
                return typed.If(N, self.condition(size), then, otherwise)
            case "while":
                return typed.While(N, self.condition(size), self.body(depth - 1, True))
            case "range":
                return self.range(depth)
            case "each":
                return self.each(depth)
        return self.rare(in_loop)

    def range(self, depth: int) -> typed.Stmt:
        start: typed.Expr = num(self.rng.randint(-3, 3))
        stop: typed.Expr = num(self.rng.randint(-3, 12))
        if self.chance(0.3):
            start = self.integer(INT64, 1)
            stop = typed.Binary(INT64, N, "+", start, stop) if self.chance(0.5) else self.integer(INT64, 1)
        return typed.ForRange(N, 0, start, stop, self.body(depth - 1, True))

    def each(self, depth: int) -> typed.Stmt:
        """A loop over a map in which something is, and which may write and delete the key that it is at."""
        walked = [decl for decl in self.maps if decl.key and decl.kind not in ("hist", "lhist") and _is_plain(decl)]
        if not walked:
            return self.range(depth)
        decl = self.rng.choice(walked)
        key = decl.key[0] if len(decl.key) == 1 else TupleType(decl.key)
        pair = TupleType((key, INT64 if decl.kind == "count" else decl.value))
        slot, reads = len(self.slots), self.maps
        self.slots.append(pair)
        if self.chance(0.8):
            self.maps = [each for each in self.maps if each is not decl] or self.maps
        body = self.body(depth - 1, True)
        self.maps = reads
        ways: list[typed.Stmt] = [typed.Break(N), typed.Continue(N), typed.Return(N)]
        for way in self.rng.sample(ways, self.rng.randint(0, 2)):
            at = self.rng.randint(0, len(body))
            body = (*body[:at], typed.If(N, self.condition(1), (way,), ()), *body[at:])
        if self.chance(0.4):
            held = typed.TupleItem(key, N, typed.Var(pair, N, slot, "$v"), 0)
            parts = [typed.TupleItem(part, N, held, index) for index, part in enumerate(decl.key)]
            own = (held,) if len(decl.key) == 1 else tuple(parts)
            changed = typed.Delete(N, decl.name, own) if self.chance(0.4) else self.update(decl, 1, own)
            body = (*body, changed) if self.chance(0.5) else (changed, *body)
        loop = typed.ForMap(N, slot, decl.name, body)
        return typed.If(N, typed.BoolLit(BOOL, N, True), (self.update(decl, 1), self.update(decl, 1), loop), ())

    def rare(self, in_loop: bool) -> typed.Stmt:
        name = self.rng.choice(self.maps).name
        kinds = ["print", "print", "time", "return", "exit"]
        kinds += ["break", "continue"] * 4 if in_loop else []
        kinds += [] if self.few else ["clear", "zero"]
        match self.rng.choice(kinds):
            case "print":
                return typed.PrintMap(N, name, self.rng.choice([0, 1]), 0)
            case "time":
                return typed.Time(N, 0)
            case "return":
                return typed.Return(N)
            case "exit":
                constant = self.chance(0.5)
                return typed.Exit(N, num(self.rng.choice([0, 3]), UINT8) if constant else self.integer(UINT8, 1))
            case "break":
                return typed.Break(N)
            case "continue":
                return typed.Continue(N)
            case "clear":
                return typed.Clear(N, name)
        return typed.Zero(N, name) if self.can_zero(name) else typed.Clear(N, name)

    def can_zero(self, name: str) -> bool:
        decl = next(decl for decl in self.maps if decl.name == name)
        return decl.kind != "scalar" or isinstance(decl.value, IntType)

    def update(self, decl: typed.MapDecl, depth: int, own: tuple[typed.Expr, ...] | None = None) -> typed.Stmt:
        key = own or self.key(decl, 1)
        if decl.kind == "scalar":
            value = self.expr(decl.value, depth)
            if isinstance(decl.value, IntType) and self.chance(0.5):
                return typed.MapAdd(N, decl.name, key, num(1, decl.value) if self.chance(0.5) else value)
            return typed.MapSet(N, decl.name, key, value)
        sample = None if decl.kind == "count" else self.expr(decl.value, depth)
        return typed.Aggregate(N, decl.name, key, decl.kind, sample)


def _is_plain(decl: typed.MapDecl) -> bool:
    """Whether a variable can hold its key."""
    return not any(isinstance(part, StackType | SymbolType | UsernameType | TimestampType) for part in decl.key)


def with_body(old: typed.Program, predicate: typed.Expr | None, body: tuple[typed.Stmt, ...]) -> typed.Program:
    """Another clause in a program."""
    clause = replace(old.clauses[0], predicate=predicate, body=body)
    return replace(old, clauses=(clause,))
