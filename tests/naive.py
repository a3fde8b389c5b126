"""A second reading of the typed program's rules: a plain tree walk, kept as simple as the rules are.

The compiled clauses are tested against it. It works on any `MapStore`.
"""

from __future__ import annotations

from typing import Any, Protocol

from tracer.kinds.site import SITE_VALUES
from tracer.lang import typed
from tracer.lang.builtins.registry import FUNCTIONS
from tracer.lang.printing.typed import tree_of
from tracer.lang.types import (
    BoolType,
    IntType,
    Stack,
    StackType,
    StringType,
    Symbol,
    TupleType,
    Type,
    is_block,
    memory_size,
)
from tracer.lang.walk import walk
from tracer.plan.model import Variant
from tracer.results.events import (
    ExitEvent,
    MapEvent,
    PrintfEvent,
    TimeEvent,
    ValueEvent,
)
from tracer.results.values import Average
from tracer.steps.python.runtime import Runtime


class _End(Exception):
    """The clause is over."""


class _Outside(_End):
    """An index is that of no element: in user space only the statement is over."""


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
            return bytes(memory_size(type)) if is_block(type) else 0


class Reader(Protocol):
    """The hit as the walk reads it; None is what cannot be read. Addresses are below 2^64."""

    def argument(self, index: int, type: Type) -> int | None:
        """`argN` in the type it has in the program."""

    def built_in(self, name: str) -> Any:
        """One of `pid tid uid gid cpu nsecs cpid comm`, or `retval`."""

    def stack(self, frames: int) -> Stack:
        """The user stack, without addresses where it cannot be walked."""

    def integer(self, address: int, type: IntType) -> int | None:
        """The integer there."""

    def block(self, address: int, size: int) -> bytes | None:
        """So many bytes there."""

    def string(self, address: int, size: int, sized: bool, length: int | None) -> tuple[bytes, bool] | None:
        """What `str` gives in a buffer of `size` bytes, and whether it was cut without being asked to: `sized` says
        that the program gives that size, `length` is one that it gives at the hit.
        """


def _names(variant: Variant) -> dict[str, bytes | int]:
    """What a site of it says, also where no step asks for it: what is used nowhere is walked all the same."""
    told = {name: value(variant.sites[0]) for name, value in SITE_VALUES.items()} if variant.sites else {}
    return {
        name: value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        for name, value in told.items()
    }


class Naive:
    """Runs one clause at hits that `reader` reads."""

    def __init__(
        self, program: typed.Program, clause: typed.Clause, runtime: Runtime, variant: Variant | None, reader: Reader
    ) -> None:
        self.program = program
        self.tree = tree_of(program)
        self.clause = clause
        self.runtime = runtime
        self.reader = reader
        self.names = {} if variant is None else {**_names(variant), **variant.told}
        self.slots: list[Any] = []
        self.assigned: list[int] = []
        self.rounds = 0
        self.loops = 0
        self.cut: set[Any] = set()

    def __call__(self) -> None:
        if self.runtime.exiting:
            return
        self.slots = [default(type) for type in self.clause.slots]
        self.assigned = [0] * len(self.slots)
        self.rounds = self.loops = 0
        self.cut = set()
        self.stacks: dict[int, Stack] = {}
        try:
            if self.clause.predicate is None or self.value(self.clause.predicate):
                self.body(self.clause.body)
        except _End:
            pass

    def readable(self, value: Any) -> Any:
        """A value; what could not be read ends the clause."""
        if value is None:
            self.runtime.loss.unreadable += 1
            raise _End
        return value

    def string(self, expr: typed.Str) -> bytes:
        """A string, and its cut counted: once at a hit for what is the same each time, else each time."""
        assert isinstance(expr.type, StringType)
        address = self.value(expr.address) % 2**64
        length = None if expr.length is None else self.value(expr.length)
        text, cut = self.readable(self.reader.string(address, expr.type.size, expr.sized, length))
        if cut:
            same = fixed(expr.address) and (expr.length is None or fixed(expr.length))
            told = (self.tree.text(expr), *self._versions(expr)) if same else None  # wherever in the text it stands
            if told is None or told not in self.cut:
                self.runtime.loss.truncated += 1
            self.cut.add(told)
        assert isinstance(text, bytes)
        return text

    def _versions(self, expr: typed.Str) -> list[int]:
        """How often each of its variables has been assigned."""
        return [self.assigned[each.slot] for each in walk(expr) if isinstance(each, typed.Var)]

    def part(self, expr: typed.Part) -> Any:
        """What lies in a block; 0 behind its end."""
        whole, offset = self.value(expr.operand), self.value(expr.offset)
        size = expr.type.size - 1 if isinstance(expr.type, StringType) else memory_size(expr.type)
        raw = whole[offset : offset + size].ljust(size, b"\0")
        match expr.type:
            case StringType():
                return raw.partition(b"\0")[0]
            case IntType(signed=signed):
                return int.from_bytes(raw, "little", signed=signed)
        return any(raw) if isinstance(expr.type, BoolType) else raw

    def stack(self, frames: int) -> Stack:
        """The stack, walked once at a hit."""
        if frames not in self.stacks:
            self.stacks[frames] = self.reader.stack(frames)
            self.runtime.loss.stacks += not self.stacks[frames].addresses
        return self.stacks[frames]

    def built_in(self, name: str) -> Any:
        """A built-in value."""
        match name:
            case "probe" | "func" | "file" | "line":
                return self.names[name]
            case "elapsed":
                return (self.reader.built_in("nsecs") - self.runtime.start_ns) % 2**64
            case "username":
                return self.reader.built_in("uid")
        return self.reader.built_in(name)

    def value(self, expr: typed.Expr) -> Any:
        match expr:
            case typed.IntLit(value=value) | typed.BoolLit(value=value) | typed.StrLit(value=value):
                return value
            case typed.Arg(index=index, type=type):
                return self.readable(self.reader.argument(index, type))
            case typed.Retval():
                return self.reader.built_in("retval")
            case typed.Builtin(name=name):
                return self.built_in(name)
            case typed.Load(address=address, type=IntType() as type):
                return self.readable(self.reader.integer(self.value(address) % 2**64, type))
            case typed.Load(address=address):
                return self.readable(self.reader.block(self.value(address) % 2**64, memory_size(expr.type)))
            case typed.Part():
                return self.part(expr)
            case typed.Within(index=index, count=count):
                at = self.value(index)
                if 0 <= at < count:
                    return at
                self.runtime.loss.unreadable += 1
                raise _Outside
            case typed.Pack(items=items):
                numbers = [(self.value(item), memory_size(item.type)) for item in items]
                return b"".join([(number % 2 ** (8 * size)).to_bytes(size, "little") for number, size in numbers])
            case typed.Str():
                return self.string(expr)
            case typed.UStack(type=StackType(frames=frames)):
                return self.stack(frames)
            case typed.Strftime(nanoseconds=nanoseconds):
                return self.value(nanoseconds)
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
            case typed.BlockExpr(body=body, value=last):
                self.body(body)
                return self.value(last)
            case typed.Cast(operand=operand, type=BoolType()):
                return bool(self.value(operand))
            case typed.Cast(operand=operand, type=IntType() as type):
                return wrap(int(self.value(operand)), type)
            case typed.Cast(operand=operand, type=TupleType(names=names)):
                assert isinstance(operand.type, TupleType)
                fields = dict(zip(operand.type.names, self.value(operand), strict=True))
                return tuple([fields[name] for name in names])
            case typed.Cast(operand=operand):
                return self.value(operand)
            case typed.TupleExpr(items=items):
                return tuple([self.value(item) for item in items])
            case typed.TupleItem(operand=operand, index=index):
                return self.value(operand)[index]
            case typed.Call(name=name, args=args):
                fold = FUNCTIONS[name].fold
                assert fold is not None
                return fold(expr.type, *[self.value(arg) for arg in args])
            case typed.USym(address=address):
                return Symbol(self.reader.built_in("pid"), self.value(address))
            case typed.VarIncr(slot=slot, delta=delta, prefix=prefix, type=IntType() as type):
                old = self.slots[slot]
                self.slots[slot] = wrap(old + delta, type)
                self.assigned[slot] += 1
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
        if expr.op in ("/", "%") and b == 0:
            self.runtime.loss.divisions += 1
            return 1
        return wrap(arithmetic(expr.op, a, b), expr.type)

    def body(self, body: tuple[typed.Stmt, ...]) -> None:
        for stmt in body:
            try:
                self.statement(stmt)
            except _Outside:
                if self.clause.kind.at_hits:
                    raise

    def statement(self, stmt: typed.Stmt) -> None:
        maps, emit = self.runtime.maps, self.runtime.emit
        match stmt:
            case typed.VarSet(slot=slot, value=value):
                self.slots[slot] = self.value(value)
                self.assigned[slot] += 1
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
                self.loops += 1
                while self.value(condition):
                    if self.is_last() or self.round(body):
                        break
                self.loops -= 1
            case typed.ForRange(slot=slot, start=start, stop=stop, body=body):
                first = self.value(start)
                end = self.value(stop)
                self.loops += 1
                for number in range(first, end):
                    if self.is_last():
                        break
                    self.slots[slot] = number
                    self.assigned[slot] += 1
                    if self.round(body):
                        break
                self.loops -= 1
            case typed.ForMap(slot=slot, map=name, body=body):
                decl = self.program.maps[name]
                room = min(max((decl.most or self.program.config.max_map_keys) // 16, 1), typed.LOOP_LIMIT)
                if self.loops and self.is_last(room):
                    raise _Break
                self.loops += 1
                for key, held in self.entries(name):
                    shown = held.mean if isinstance(held, Average) else held
                    self.slots[slot] = key[0] if len(key) == 1 else key, shown
                    self.assigned[slot] += 1
                    if self.round(body):
                        break
                self.loops -= 1
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
                status = self.value(code)
                self.runtime.exiting = True
                emit(ExitEvent(status))
                raise _End
            case _:
                raise AssertionError(stmt)

    def entries(self, name: str) -> list[tuple[Any, Any]]:
        """What a map has, in the order of the keys."""
        return sorted(self.runtime.maps.snapshot(name).items.items(), key=lambda item: item[0])

    def is_last(self, rounds: int = 1) -> bool:
        """Whether the loops of the hit have not so many rounds left; counts the hit, and no round is left then."""
        if self.rounds + rounds > typed.LOOP_LIMIT:
            self.runtime.loss.loops += self.rounds <= typed.LOOP_LIMIT
            self.rounds = typed.LOOP_LIMIT + 1
            return True
        self.rounds += rounds
        return False

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


def fixed(expr: typed.Expr) -> bool:
    """Whether an expression is made of what a hit has, constants, variables, and what lies at such addresses."""
    match expr:
        case typed.Arg() | typed.Var() | typed.Retval() | typed.IntLit():
            return True
        case typed.Builtin(name=name):
            return name in ("pid", "tid", "uid", "gid", "cpid")
        case typed.Cast(operand=operand) | typed.Load(address=operand):
            return fixed(operand)
        case typed.Binary(left=left, right=right):
            return fixed(left) and fixed(right)
    return False
