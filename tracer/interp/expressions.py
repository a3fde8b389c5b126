"""Typed expressions as Python expressions, with the statements that have to run before them.

The order of evaluation is that of the text. Where an operand changes something (`$x++`, `@x++`), what stands before it
is kept in a variable first. Right operands of `&&`, `||` and the arms of `?:` that need statements of their own turn
into `if`.

A leaf is tested for None and `NO_ROOM`, and a string cut, when its value is first needed on a path; `_ready` holds the
leaves for which that has been done wherever the present line is reached. A string whose size is known only at the hit
is tested wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracer.interp.arithmetic import binary, bounds, of_any_size, unary, wrapped
from tracer.interp.fetch import PID, fetches, leaf_of, told_once
from tracer.interp.mapcode import MapCode
from tracer.interp.memory import integer_reader, reach_reader, string_reader
from tracer.interp.runtime import NO_ROOM, Runtime, measured
from tracer.interp.source import Code, Writer, integer
from tracer.lang import typed
from tracer.lang.types import UINT64, BoolType, IntType, StringType, Symbol, Type
from tracer.resolve.model import Const, Reg

if TYPE_CHECKING:
    from tracer.plan.model import Variant

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_LONGEST = 300  # characters; CPython's parser takes 200 nested parentheses, so longer expressions are split
_ALWAYS_KNOWN = frozenset({"pid", "tid", "uid", "gid", "cpu", "nsecs", "cpid"})


class Expressions:
    """Writes the expressions of one clause."""

    def __init__(
        self, clause: typed.Clause, variant: Variant | None, runtime: Runtime, maps: MapCode, writer: Writer
    ) -> None:
        self.clause = clause
        self.variant = variant
        self.maps = maps
        self.writer = writer
        self.runtime = runtime
        self.runtime_name = writer.bind(runtime, "runtime")
        self.loss = writer.bind(runtime.loss, "loss")
        self.leaves = {leaf_of(leaf) or leaf: f"a{index}" for index, leaf in enumerate(fetches(clause))}
        self.told: dict[typed.Expr, str] = {}
        """The variables that say whether a cut has been counted at this hit, by what it is counted as."""
        self._ready: set[str] = set()

    # --- what statements ask for ---

    def value(self, expr: typed.Expr) -> Code:
        """An expression whose value is `expr`'s."""
        code = self._value(expr)
        return self.writer.keep(code) if len(code.text) > _LONGEST else code

    def kept(self, expr: typed.Expr) -> Code:
        """As `value`, in a form that may be written twice."""
        return self.writer.keep(self.value(expr))

    def condition(self, expr: typed.Expr) -> str:
        """An expression that Python takes as true where `expr` is true or not 0."""
        match expr:
            case typed.Binary(op="&&" | "||"):
                return self._logical(expr)
            case typed.Unary(op="!"):
                return f"(not {self.condition(expr.operand)})"
            case typed.Cast(type=BoolType()):
                return self.condition(expr.operand)
            case _:
                return self.value(expr).text

    def values(self, exprs: Sequence[typed.Expr]) -> list[Code]:
        """Several expressions, evaluated from left to right."""
        codes: list[Code] = []
        for expr in exprs:
            mark, effects = self.writer.mark(), self.writer.effects
            code = self.value(expr)
            if self.writer.effects != effects:
                codes = self._keep_before(mark, codes)
            codes.append(code)
        return codes

    def key(self, parts: Sequence[typed.Expr], *before: typed.Expr) -> tuple[str, list[Code]]:
        """A map key, evaluated once and usable twice, and what is evaluated before its parts."""
        codes = self.values([*before, *parts])
        first, own = codes[: len(before)], codes[len(before) :]
        if not parts:
            return "()", first
        items = "".join(f"{code.text}, " for code in own)
        return self.writer.keep(Code(f"({items.rstrip()})")).text, first

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is written inside may not run: what it makes ready is not ready afterwards."""
        before = set(self._ready)
        try:
            yield
        finally:
            self._ready = before

    # --- expressions ---

    def _value(self, expr: typed.Expr) -> Code:
        leaf = leaf_of(expr)
        if leaf is not None:
            code = self._leaf(expr, leaf)
            return self._measured(expr, code.text) if isinstance(expr, typed.Str) and expr.length is not None else code
        match expr:
            case typed.IntLit(value=number):
                return integer(number)
            case typed.BoolLit(value=truth):
                return Code("True" if truth else "False", stable=True)
            case typed.StrLit(value=literal):
                return Code(self.writer.bind(literal, "text"), stable=True)
            case typed.Builtin(name=name):
                return Code(self.writer.bind(self._constant_text(name), "text"), stable=True)
            case typed.Var(slot=slot):
                return self._typed(f"v{int(slot)}", expr.type)
            case typed.MapGet(map=name, key=key):
                code = self.maps.read(name, self.key(key)[0])
                return wrapped(code, expr.type) if isinstance(expr.type, IntType) else code
            case typed.MapLen(map=name):
                return self.maps.length(name)
            case typed.HasKey(map=name, key=key):
                return self.maps.has(name, self.key(key)[0])
            case typed.Unary():
                return self._unary(expr)
            case typed.Binary():
                return self._binary(expr)
            case typed.Ternary():
                return self._ternary(expr)
            case typed.Cast():
                return self._cast(expr)
            case typed.TupleExpr(items=items):
                codes = self.values(items)
                text = "".join(f"{code.text}, " for code in codes).rstrip()
                return Code(f"({text})", stable=all(code.stable for code in codes))
            case typed.TupleItem(operand=operand, index=index):
                inner = self.value(operand)
                return self._typed(f"{inner.text}[{int(index)}]", expr.type, inner.stable)
            case typed.Load() | typed.Str():
                return self._from_memory(expr)
            case typed.Strncmp(left=left, right=right, length=length):
                a, b = self.values((left, right))
                return Code(f"(0 if {a.text}[:{int(length)}] == {b.text}[:{int(length)}] else 1)", 0, 1)
            case typed.Strlen(operand=operand):
                inner = self.value(operand)
                return Code(f"len({inner.text})", 0, (1 << 32) - 1, inner.stable)
            case typed.Strcontains(haystack=haystack, needle=needle):
                a, b = self.values((haystack, needle))
                return Code(f"({b.text} in {a.text})")
            case typed.USym(address=address):
                symbol = self.writer.bind(Symbol, "symbol")
                inner = self.value(address)
                return Code(f"{symbol}({self._leaf(PID, PID).text}, {inner.text})", stable=inner.stable)
            case typed.Strftime(nanoseconds=nanoseconds):
                return self.value(nanoseconds)
            case typed.VarIncr():
                return self._variable_step(expr)
            case typed.MapIncr(map=name, key=key, delta=delta, prefix=prefix):
                old, new = self.maps.add(name, self.key(key)[0], integer(delta))
                return new if prefix else old
            case _:
                raise TypeError(f"no such expression in the typed program: {type(expr).__name__}")

    def _typed(self, text: str, type: Type, stable: bool = False) -> Code:
        low, high = bounds(type) if isinstance(type, IntType) else (0, 0)
        return Code(text, low, high, stable)

    def _constant_text(self, name: str) -> bytes:
        text: str | None
        if self.variant is not None:
            text = self.variant.function if name == "func" else self.variant.probe
        else:
            text = self.clause.names[0] if name == "probe" and self.clause.names else None
        return (text or "").encode("utf-8", "surrogateescape")

    def _leaf(self, expr: typed.Expr, leaf: typed.Expr) -> Code:
        name = self.leaves[leaf]
        if name not in self._ready:
            self._ready.add(name)
            if not self._always_known(leaf):
                self._ends_where(name, "None", "stacks" if isinstance(leaf, typed.UStack) else "unreadable")
                if not isinstance(leaf, (typed.UStack, typed.Builtin)) and self.clause.kind == "probe":
                    self._ends_where(name, self.writer.bind(NO_ROOM, "no_room"), "crowded")
            if isinstance(leaf, typed.Str) and leaf.length is None:
                self._cut(name, leaf)
        if isinstance(expr, typed.Builtin) and expr.name == "elapsed":
            return of_any_size(f"({name} - {self.runtime_name}.start_ns)", UINT64)
        return self._typed(name, expr.type, stable=True)

    def _ends_where(self, name: str, absent: str, lost: str) -> None:
        with self.writer.block(f"if {name} is {absent}:"):
            self.writer.line(f"{self.loss}.{lost} += 1")
            self.writer.line("return")

    def _always_known(self, leaf: typed.Expr) -> bool:
        if isinstance(leaf, typed.Builtin):
            return leaf.name in _ALWAYS_KNOWN and self.clause.kind != "probe"
        if isinstance(leaf, typed.Arg) and self.variant is not None and leaf.index in self.variant.args:
            return isinstance(self.variant.args[leaf.index].operand, (Reg, Const))
        return False

    def _cut(self, name: str, expr: typed.Str) -> None:
        longest = expr.type.size - 1 if isinstance(expr.type, StringType) else 0
        with self.writer.block(f"if len({name}) > {int(longest)}:"):
            self.writer.line(f"{name} = {name}[:{int(longest)}]")
            if expr.sized:
                return
            key = told_once(expr)
            if key is None or leaf_of(expr) == key:
                # A leaf is cut where it is kept, so the next one finds nothing to cut.
                self.writer.line(f"{self.loss}.truncated += 1")
                return
            told = self.told.setdefault(key, f"c{len(self.told)}")
            self.writer.line(f"{self.loss}.truncated += not {told}")
            self.writer.line(f"{told} = True")

    def _measured(self, expr: typed.Str, reach: str) -> Code:
        """A string out of what is known of it, now that its size is known too."""
        assert expr.length is not None and isinstance(expr.type, StringType)
        length = self.value(expr.length).text
        name = self.writer.temporary()
        self.writer.line(f"{name} = {self.writer.bind(measured, 'measured')}({reach}, {length}, {int(expr.type.size)})")
        self._ends_where(name, "None", "unreadable")
        self._ends_where(name, self.writer.bind(NO_ROOM, "no_room"), "crowded")
        self._cut(name, expr)
        return self._typed(name, expr.type, stable=True)

    def _from_memory(self, expr: typed.Load | typed.Str) -> Code:
        """Memory that is not part of the hit, read through the runtime."""
        address = self.value(expr.address)
        if isinstance(expr, typed.Str):
            size = expr.type.size if isinstance(expr.type, StringType) else 1
            if expr.length is not None:
                reach = self.writer.temporary()
                read = self.writer.bind(reach_reader(self.runtime, size), "reach")
                self.writer.line(f"{reach} = {read}({address.text})")
                return self._measured(expr, reach)
            read = self.writer.bind(string_reader(self.runtime, size), "string")
        else:
            width = expr.type if isinstance(expr.type, IntType) else UINT64
            read = self.writer.bind(integer_reader(self.runtime, width), "load")
        name = self.writer.temporary()
        self.writer.line(f"{name} = {read}({address.text})")
        self._ends_where(name, "None", "unreadable")
        if isinstance(expr, typed.Str):
            self._cut(name, expr)
        return self._typed(name, expr.type, stable=True)

    def _unary(self, expr: typed.Unary) -> Code:
        if expr.op == "!":
            return Code(f"(not {self.condition(expr.operand)})")
        operand = self.value(expr.operand)
        return unary(expr.op, operand, expr.type) if isinstance(expr.type, IntType) else operand

    def _binary(self, expr: typed.Binary) -> Code:
        if expr.op in ("&&", "||"):
            return Code(f"(not not {self._logical(expr)})")
        left, right = self.values((expr.left, expr.right))
        if expr.op in _COMPARISONS:
            return Code(f"({left.text} {expr.op} {right.text})", stable=left.stable and right.stable)
        assert isinstance(expr.type, IntType)
        return binary(expr.op, left, right, expr.type, self.writer)

    def _cast(self, expr: typed.Cast) -> Code:
        if isinstance(expr.type, BoolType):
            return Code(f"(not not {self.condition(expr.operand)})")
        operand = self.value(expr.operand)
        if not isinstance(expr.type, IntType):
            return operand
        if isinstance(expr.operand.type, BoolType):
            return Code(f"(1 if {operand.text} else 0)", 0, 1, operand.stable)
        return wrapped(operand, expr.type)

    def _logical(self, expr: typed.Binary) -> str:
        word = "and" if expr.op == "&&" else "or"
        left = self.condition(expr.left)
        mark = self.writer.mark()
        self.writer.depth += 1
        with self.branch():
            right = self.condition(expr.right)
        if self.writer.mark() == mark:
            self.writer.depth -= 1
            return f"({left} {word} {right})"
        name = self.writer.temporary()
        self.writer.line(f"{name} = {right}")
        self.writer.depth -= 1
        self.writer.insert(mark, f"if {name}:" if word == "and" else f"if not {name}:")
        self.writer.insert(mark, f"{name} = {left}")
        return name

    def _ternary(self, expr: typed.Ternary) -> Code:
        condition = self.condition(expr.condition)
        start = self.writer.mark()
        then, between = self._arm(expr.then)
        otherwise, end = self._arm(expr.otherwise)
        low, high = min(then.low, otherwise.low), max(then.high, otherwise.high)
        if end == start:
            return Code(f"({then.text} if {condition} else {otherwise.text})", low, high)
        name = self.writer.temporary()
        with self._deeper():
            self.writer.line(f"{name} = {otherwise.text}")
        self.writer.insert(between, "else:")
        with self._deeper():
            self.writer.insert(between, f"{name} = {then.text}")
        self.writer.insert(start, f"if {condition}:")
        return Code(name, low, high, stable=True)

    def _arm(self, expr: typed.Expr) -> tuple[Code, int]:
        with self._deeper(), self.branch():
            code = self.value(expr)
        return code, self.writer.mark()

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self.writer.depth += 1
        try:
            yield
        finally:
            self.writer.depth -= 1

    def _variable_step(self, expr: typed.VarIncr) -> Code:
        name = f"v{int(expr.slot)}"
        self.writer.effects += 1
        assert isinstance(expr.type, IntType)
        low, high = bounds(expr.type)
        before = self.writer.temporary()
        if not expr.prefix:
            self.writer.line(f"{before} = {name}")
        delta = int(expr.delta)
        step = wrapped(Code(f"({name} + {delta})", low + delta, high + delta), expr.type)
        self.writer.line(f"{name} = {step.text}")
        if not expr.prefix:
            return Code(before, low, high, stable=True)
        return self._typed(name, expr.type)

    def _keep_before(self, mark: int, codes: list[Code]) -> list[Code]:
        """Moves what is not stable into variables that are set before the lines since `mark`."""
        kept = []
        for code in codes:
            if not code.stable:
                name = self.writer.temporary()
                self.writer.insert(mark, f"{name} = {code.text}")
                mark += 1
                code = Code(name, code.low, code.high, stable=True)
            kept.append(code)
        return kept


