"""A second reading of `lang.typed`: walks the typed program node by node, slowly and plainly.

It shares with the product only the types, the tables of operators that the constant folder uses, and `LocalMaps`. What
the interpreter's generated Python and the generated C answer is compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.interp.fetch import PID, fetches, leaf_of
from tracer.interp.runtime import Compiled, Runtime
from tracer.lang import typed
from tracer.lang.operations import ARITHMETIC, COMPARISON, cast, invert, negate, wrap
from tracer.lang.types import BoolType, IntType, StackType, StringType, Symbol, TupleType, Type
from tracer.plan.model import Variant
from tracer.results.events import (
    ClearEvent,
    ExitEvent,
    MapEvent,
    PrintfEvent,
    TimeEvent,
    ValueEvent,
    ZeroEvent,
)
from tracer.results.values import Average


class _End(Exception):
    """The clause ends."""


class _Break(Exception):
    """The innermost loop ends."""


class _Continue(Exception):
    """The innermost loop goes on."""


def walk_clause(program: typed.Program, clause: typed.Clause, variant: Variant | None, runtime: Runtime) -> Compiled:
    """As `interp.compile.compile_clause`."""
    leaves = fetches(clause)
    keys = [leaf_of(leaf) or leaf for leaf in leaves]

    def take(hit: tuple[object, ...]) -> None:
        if clause.kind in ("probe", "interval") and runtime.exiting:
            return
        walker = _Walker(program, clause, variant, runtime, dict(zip(keys, hit, strict=True)))
        try:
            if clause.predicate is None or walker.value(clause.predicate):
                walker.block(clause.body)
        except _End:
            return

    return take


def empty(type: Type) -> Any:
    """What is not there."""
    match type:
        case StringType():
            return b""
        case BoolType():
            return False
        case TupleType(items=items):
            return tuple(map(empty, items))
        case StackType():
            return ()
        case _:
            return 0


class _Walker:
    """One hit of one clause."""

    def __init__(
        self,
        program: typed.Program,
        clause: typed.Clause,
        variant: Variant | None,
        runtime: Runtime,
        leaves: dict[typed.Expr, object],
    ) -> None:
        self.program = program
        self.clause = clause
        self.variant = variant
        self.runtime = runtime
        self.leaves = leaves
        self.cut: set[typed.Expr] = set()
        self.slots = [empty(type) for type in clause.slots]

    # --- expressions

    def value(self, expr: typed.Expr) -> Any:
        leaf = leaf_of(expr)
        if leaf is not None:
            return self._leaf(expr, leaf)
        name = type(expr).__name__
        return getattr(self, f"_{name}")(expr)

    def _leaf(self, expr: typed.Expr, leaf: typed.Expr) -> Any:
        value = self.leaves[leaf]
        if value is None:
            self.runtime.loss.unreadable += 1
            raise _End
        if isinstance(expr, typed.Str):
            return self._cut(expr, value, leaf)
        if isinstance(expr, typed.Builtin) and expr.name == "elapsed":
            return wrap(value - self.runtime.start_ns, IntType(64, False))  # type: ignore[operator]
        return value

    def _cut(self, expr: typed.Str, value: Any, leaf: typed.Expr) -> bytes:
        assert isinstance(expr.type, StringType)
        if len(value) > expr.type.size - 1 and not expr.sized and leaf not in self.cut:
            self.runtime.loss.truncated += 1
            self.cut.add(leaf)
        return bytes(value[: expr.type.size - 1])

    def _IntLit(self, expr: typed.IntLit) -> int:
        assert isinstance(expr.type, IntType) and wrap(expr.value, expr.type) == expr.value
        return expr.value

    def _BoolLit(self, expr: typed.BoolLit) -> bool:
        return expr.value

    def _StrLit(self, expr: typed.StrLit) -> bytes:
        return expr.value

    def _Builtin(self, expr: typed.Builtin) -> bytes:
        if self.variant is None:
            return (self.clause.names[0] if expr.name == "probe" else "").encode()
        return ((self.variant.function if expr.name == "func" else self.variant.probe) or "").encode()

    def _Var(self, expr: typed.Var) -> Any:
        return self.slots[expr.slot]

    def key(self, key: tuple[typed.Expr, ...]) -> tuple[Any, ...]:
        return tuple(self.value(part) for part in key)

    def _MapGet(self, expr: typed.MapGet) -> Any:
        value = self.runtime.maps.get(expr.map, self.key(expr.key))
        decl = self.program.maps[expr.map]
        if value is None:
            return empty(decl.value) if decl.kind == "scalar" else 0
        if isinstance(value, Average):
            return ARITHMETIC["/"](value.total, value.hits, decl.value)  # type: ignore[arg-type]
        return wrap(value, expr.type) if isinstance(expr.type, IntType) else value  # type: ignore[arg-type]

    def _MapLen(self, expr: typed.MapLen) -> int:
        return len(self.runtime.maps.snapshot(expr.map).items)

    def _HasKey(self, expr: typed.HasKey) -> bool:
        return self.runtime.maps.get(expr.map, self.key(expr.key)) is not None

    def _Unary(self, expr: typed.Unary) -> Any:
        value = self.value(expr.operand)
        if expr.op == "!":
            return not value
        assert isinstance(expr.type, IntType)
        return (negate if expr.op == "-" else invert)(value, expr.type)

    def _Binary(self, expr: typed.Binary) -> Any:
        left = self.value(expr.left)
        if expr.op == "&&":
            return bool(left) and bool(self.value(expr.right))
        if expr.op == "||":
            return bool(left) or bool(self.value(expr.right))
        right = self.value(expr.right)
        if expr.op in COMPARISON:
            return COMPARISON[expr.op](left, right)
        assert isinstance(expr.type, IntType)
        assert expr.left.type == expr.type and expr.right.type == expr.type, expr
        return ARITHMETIC[expr.op](left, right, expr.type)

    def _Ternary(self, expr: typed.Ternary) -> Any:
        return self.value(expr.then if self.value(expr.condition) else expr.otherwise)

    def _Cast(self, expr: typed.Cast) -> Any:
        value = self.value(expr.operand)
        return cast(value, expr.type) if isinstance(expr.type, (IntType, BoolType)) else value

    def _TupleExpr(self, expr: typed.TupleExpr) -> Any:
        return tuple(self.value(item) for item in expr.items)

    def _TupleItem(self, expr: typed.TupleItem) -> Any:
        return self.value(expr.operand)[expr.index]

    def _Load(self, expr: typed.Load) -> int:
        assert isinstance(expr.type, IntType)
        size = expr.type.bits // 8
        raw = self.runtime.read_memory(self.value(expr.address), size)
        if raw is None or len(raw) < size:
            self.runtime.loss.unreadable += 1
            raise _End
        return int.from_bytes(raw, "little", signed=expr.type.signed)

    def _Str(self, expr: typed.Str) -> bytes:
        assert isinstance(expr.type, StringType)
        address = self.value(expr.address)
        raw = b"" if address == 0 else self.runtime.read_memory(address, expr.type.size)
        if raw is None:
            self.runtime.loss.unreadable += 1
            raise _End
        return self._cut(expr, raw.partition(b"\0")[0], expr)

    def _Strncmp(self, expr: typed.Strncmp) -> int:
        left, right = self.value(expr.left), self.value(expr.right)
        return int(left[: expr.length] != right[: expr.length])

    def _Strlen(self, expr: typed.Strlen) -> int:
        return len(self.value(expr.operand))

    def _Strcontains(self, expr: typed.Strcontains) -> bool:
        haystack, needle = self.value(expr.haystack), self.value(expr.needle)
        return needle in haystack

    def _USym(self, expr: typed.USym) -> Symbol:
        address = self.value(expr.address)
        return Symbol(self.leaves[PID], address)  # type: ignore[arg-type]

    def _Strftime(self, expr: typed.Strftime) -> int:
        return self.value(expr.nanoseconds)  # type: ignore[no-any-return]

    def _VarIncr(self, expr: typed.VarIncr) -> int:
        assert isinstance(expr.type, IntType)
        old = self.slots[expr.slot]
        new = self.slots[expr.slot] = wrap(old + expr.delta, expr.type)
        return new if expr.prefix else old  # type: ignore[no-any-return]

    def _MapIncr(self, expr: typed.MapIncr) -> int:
        assert isinstance(expr.type, IntType)
        key = self.key(expr.key)
        old: Any = self.runtime.maps.get(expr.map, key) or 0
        self.runtime.maps.add(expr.map, key, expr.delta)
        return wrap(old + expr.delta, expr.type) if expr.prefix else old  # type: ignore[no-any-return]

    # --- statements

    def block(self, body: tuple[typed.Stmt, ...]) -> None:
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
            case typed.Aggregate(map=name, key=key, function=function, value=value):
                result = self.value(value) if value is not None else 0
                maps.aggregate(name, self.key(key), function, result)
            case typed.Delete(map=name, key=key):
                maps.delete(name, self.key(key))
            case typed.ExprStmt(expr=expr):
                self.value(expr)
            case typed.If(condition=condition, then=then, otherwise=otherwise):
                self.block(then if self.value(condition) else otherwise)
            case typed.While(condition=condition, body=body):
                self._loop(lambda round: bool(self.value(condition)), body)
            case typed.ForRange():
                self._range(stmt)
            case typed.ForMap():
                raise AssertionError("not in a probe")
            case typed.Return():
                raise _End
            case typed.Break():
                raise _Break
            case typed.Continue():
                raise _Continue
            case typed.Printf(format=format, args=args):
                emit(PrintfEvent(format, tuple(self.value(arg) for arg in args)))
            case typed.PrintValue(shape=shape, value=value):
                emit(ValueEvent(shape, self.value(value)))
            case typed.PrintMap(map=name, top=top, div=div):
                emit(MapEvent(name, top, div))
            case typed.Clear(map=name):
                emit(ClearEvent(name))
            case typed.Zero(map=name):
                emit(ZeroEvent(name))
            case typed.Time(format=format):
                emit(TimeEvent(format))
            case typed.Exit(code=code):
                self.runtime.exiting = True
                emit(ExitEvent(code))
                raise _End
            case _:
                raise AssertionError(stmt)

    def _range(self, stmt: typed.ForRange) -> None:
        start, stop = self.value(stmt.start), self.value(stmt.stop)

        def next_round(round: int) -> bool:
            if start + round >= stop:
                return False
            self.slots[stmt.slot] = start + round
            return True

        self._loop(next_round, stmt.body)

    def _loop(self, goes_on: Callable[[int], bool], body: tuple[typed.Stmt, ...]) -> None:
        round = 0
        while goes_on(round):
            if round == typed.LOOP_LIMIT:
                self.runtime.loss.loops += 1
                return
            round += 1
            try:
                self.block(body)
            except _Break:
                return
            except _Continue:
                continue
