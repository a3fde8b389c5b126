"""A second reading of the typed program's rules: a plain tree walk, kept as simple as the rules are.

The compiled clauses are tested against it. It works on any `MapStore`.
"""

from __future__ import annotations

from typing import Any

from tests.typed_leaves import PID, fetches, leaf_of, without_spans
from tracer.lang import typed
from tracer.lang.builtins.registry import FUNCTIONS
from tracer.lang.types import BoolType, IntType, StringType, Symbol, TupleType, Type
from tracer.plan.model import Variant
from tracer.results.events import (
    ExitEvent,
    MapEvent,
    PrintfEvent,
    TimeEvent,
    ValueEvent,
)
from tracer.results.values import Average
from tracer.steps.runtime import Hit, Runtime


class _End(Exception):
    """The clause is over."""


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def wrap(value: int, type: IntType) -> int:
    value %= 2**type.bits
    return value - 2**type.bits if type.signed and value >= 2 ** (type.bits - 1) else value


def default(type: Type) -> Any:
    match type:
        case StringType():
            return b""
        case BoolType():
            return False
        case TupleType(items=items):
            return tuple(default(item) for item in items)
        case _:
            return 0


class Naive:
    """Runs one clause."""

    def __init__(
        self, program: typed.Program, clause: typed.Clause, runtime: Runtime, variant: Variant | None = None
    ) -> None:
        self.program = program
        self.clause = clause
        self.runtime = runtime
        self.names = {} if variant is None else {"probe": variant.probe, "func": variant.function}
        self.leaves = [leaf_of(leaf) for leaf in fetches(clause)]
        self.hit: dict[Any, Any] = {}
        self.slots: list[Any] = []
        self.cut: set[Any] = set()

    def __call__(self, hit: Hit) -> None:
        if self.runtime.exiting:
            return
        self.hit = dict(zip(self.leaves, hit, strict=True))
        self.slots = [default(type) for type in self.clause.slots]
        self.cut = set()
        try:
            if self.clause.predicate is None or self.value(self.clause.predicate):
                self.body(self.clause.body)
        except _End:
            pass

    def unreadable(self) -> _End:
        self.runtime.loss.unreadable += 1
        return _End()

    def leaf(self, leaf: typed.Expr) -> Any:
        value = self.hit[leaf]
        if value is None:
            raise self.unreadable()
        if isinstance(leaf, typed.Str) and leaf.length is None:
            assert isinstance(leaf.type, StringType)
            if len(value) >= leaf.type.size:
                if not leaf.sized and leaf not in self.cut:
                    self.runtime.loss.truncated += 1
                    self.cut.add(leaf)
                value = value[: leaf.type.size - 1]
        return value

    def sized(self, expr: typed.Str, reach: Any) -> Any:
        """A string whose size the program gives at the hit: byte by byte, as far as it may go."""
        assert expr.length is not None and isinstance(expr.type, StringType)
        known, behind = reach
        size, most = self.value(expr.length), expr.type.size
        shown = bytearray()
        for place in range(max(size - 1, 0) if size <= most else most):
            if place == len(known):
                if behind == b"":
                    break
                raise self.unreadable()
            shown.append(known[place])
        if len(shown) == most:
            if without_spans(expr) not in self.cut:
                self.runtime.loss.truncated += 1
                self.cut.add(without_spans(expr))
            shown.pop()
        return bytes(shown)

    def value(self, expr: typed.Expr) -> Any:
        leaf = leaf_of(expr)
        if leaf is not None:
            value = self.leaf(leaf)
            if isinstance(expr, typed.Str) and expr.length is not None:
                return self.sized(expr, value)
            if isinstance(expr, typed.Builtin) and expr.name == "elapsed":
                return (value - self.runtime.start_ns) % 2**64
            return value
        match expr:
            case typed.IntLit(value=value) | typed.BoolLit(value=value) | typed.StrLit(value=value):
                return value
            case typed.Builtin(name=name):
                return (self.names.get(name) or "").encode()
            case typed.Var(slot=slot):
                return self.slots[slot]
            case typed.MapGet(map=name, key=key):
                return self.read(name, self.key(key))
            case typed.MapLen(map=name):
                return len(self.runtime.maps.snapshot(name).items)
            case typed.HasKey(map=name, key=key):
                return self.runtime.maps.get(name, self.key(key)) is not None
            case typed.Unary(op="!", operand=operand):
                return not self.value(operand)
            case typed.Unary(op="-", operand=operand, type=IntType() as type):
                return wrap(-self.value(operand), type)
            case typed.Unary(op="~", operand=operand, type=IntType() as type):
                return wrap(~self.value(operand), type)
            case typed.Binary():
                return self.binary(expr)
            case typed.Ternary(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self.value(condition) else otherwise)
            case typed.Cast(operand=operand, type=BoolType()):
                return bool(self.value(operand))
            case typed.Cast(operand=operand, type=IntType() as type):
                return wrap(int(self.value(operand)), type)
            case typed.Cast(operand=operand):
                return self.value(operand)
            case typed.TupleExpr(items=items):
                return tuple([self.value(item) for item in items])
            case typed.TupleItem(operand=operand, index=index):
                return self.value(operand)[index]
            case typed.Strncmp(left=left, right=right, length=length):
                a, b = self.value(left), self.value(right)
                for i in range(length):
                    x, y = a[i : i + 1], b[i : i + 1]
                    if x != y:
                        return 1
                    if not x:
                        break
                return 0
            case typed.Strlen(operand=operand):
                return len(self.value(operand))
            case typed.Strcontains(haystack=haystack, needle=needle):
                a = self.value(haystack)
                return self.value(needle) in a
            case typed.Call(name=name, args=args):
                fold = FUNCTIONS[name].fold
                assert fold is not None
                return fold(expr.type, *[self.value(arg) for arg in args])
            case typed.USym(address=address):
                number = self.value(address)
                return Symbol(self.leaf(PID), number)
            case typed.VarIncr(slot=slot, delta=delta, prefix=prefix, type=IntType() as type):
                old = self.slots[slot]
                self.slots[slot] = wrap(old + delta, type)
                return self.slots[slot] if prefix else old
            case typed.MapIncr(map=name, key=key, delta=delta, prefix=prefix):
                where = self.key(key)
                old = self.read(name, where)
                self.runtime.maps.add(name, where, delta)
                width = self.program.maps[name].value
                assert isinstance(width, IntType)
                return wrap(old + delta, width) if prefix else old
            case _:
                raise AssertionError(expr)

    def read(self, name: str, key: tuple[Any, ...]) -> Any:
        value = self.runtime.maps.get(name, key)
        if value is None:
            decl = self.program.maps[name]
            return default(decl.value) if decl.kind == "scalar" else 0
        if isinstance(value, Average):
            return int(abs(value.total) // value.hits) * (-1 if value.total < 0 else 1) if value.hits else 0
        return value

    def key(self, parts: tuple[typed.Expr, ...]) -> tuple[Any, ...]:
        return tuple([self.value(part) for part in parts])

    def binary(self, expr: typed.Binary) -> Any:
        if expr.op == "&&":
            return bool(self.value(expr.left)) and bool(self.value(expr.right))
        if expr.op == "||":
            return bool(self.value(expr.left)) or bool(self.value(expr.right))
        a = self.value(expr.left)
        b = self.value(expr.right)
        match expr.op:
            case "==":
                return a == b
            case "!=":
                return a != b
            case "<":
                return a < b
            case "<=":
                return a <= b
            case ">":
                return a > b
            case ">=":
                return a >= b
        assert isinstance(expr.type, IntType)
        return wrap(arithmetic(expr.op, a, b), expr.type)

    def body(self, body: tuple[typed.Stmt, ...]) -> None:
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: typed.Stmt) -> None:
        maps, emit = self.runtime.maps, self.runtime.emit
        match stmt:
            case typed.VarSet(slot=slot, value=value):
                self.slots[slot] = self.value(value)
            case typed.MapSet(map=name, key=key, value=value):
                result = self.value(value)
                maps.set(name, self.key(key), result)
            case typed.MapAdd(map=name, key=key, value=value):
                result = self.value(value)
                maps.add(name, self.key(key), result)
            case typed.Aggregate(map=name, key=key, function=function, value=optional):
                result = 0 if optional is None else self.value(optional)
                maps.aggregate(name, self.key(key), function, result)
            case typed.Delete(map=name, key=key):
                maps.delete(name, self.key(key))
            case typed.ExprStmt(expr=expr):
                self.value(expr)
            case typed.If(condition=condition, then=then, otherwise=otherwise):
                self.body(then if self.value(condition) else otherwise)
            case typed.While(condition=condition, body=body):
                rounds = 0
                while self.value(condition):
                    if rounds == typed.LOOP_LIMIT:
                        self.runtime.loss.loops += 1
                        break
                    rounds += 1
                    if self.round(body):
                        break
            case typed.ForRange(slot=slot, start=start, stop=stop, body=body):
                first = self.value(start)
                end = self.value(stop)
                rounds = 0
                while first + rounds < end:
                    if rounds == typed.LOOP_LIMIT:
                        self.runtime.loss.loops += 1
                        break
                    self.slots[slot] = first + rounds
                    rounds += 1
                    if self.round(body):
                        break
            case typed.Return():
                raise _End
            case typed.Break():
                raise _Break
            case typed.Continue():
                raise _Continue
            case typed.Printf(format=format, args=args):
                emit(PrintfEvent(format, tuple([self.value(arg) for arg in args])))
            case typed.PrintValue(shape=shape, value=value):
                emit(ValueEvent(shape, self.value(value)))
            case typed.PrintMap(map=name, top=top, div=div):
                emit(MapEvent(name, top, div, maps.snapshot(name)))
            case typed.Clear(map=name):
                maps.clear(name)
            case typed.Zero(map=name):
                maps.zero(name)
            case typed.Time(format=format):
                emit(TimeEvent(format))
            case typed.Exit(code=code):
                self.runtime.exiting = True
                emit(ExitEvent(code))
                raise _End
            case _:
                raise AssertionError(stmt)

    def round(self, body: tuple[typed.Stmt, ...]) -> bool:
        """One round of a loop; whether it broke out."""
        try:
            self.body(body)
        except _Continue:
            pass
        except _Break:
            return True
        return False


def arithmetic(op: str, a: int, b: int) -> int:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "%":
            return a if b == 0 else a - b * (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
        case "<<":
            return a << (b % 64)
        case ">>":
            return a >> (b % 64)
    raise AssertionError(op)
