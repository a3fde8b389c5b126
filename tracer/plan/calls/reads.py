"""The values that a clause of calls reads: they are noted, and read in memory, as the call begins, and found again
where it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tracer.dataclass import replace
from tracer.errors import NOWHERE, Diagnostic, Span
from tracer.lang.builtins.registry import built_in_of
from tracer.lang.typed import (
    Arg,
    Binary,
    BoolLit,
    Builtin,
    Call,
    Cast,
    Clause,
    Delete,
    Expr,
    Find,
    If,
    IntLit,
    Load,
    MapDecl,
    MapSet,
    Pack,
    Part,
    Return,
    Retval,
    Stmt,
    Str,
    StrLit,
    Ternary,
    TupleExpr,
    TupleItem,
    Unary,
    Var,
    Within,
)
from tracer.lang.types import BOOL, UINT64, BoolType, IntType, PointerType, StringType, TupleType, Type
from tracer.lang.types.operations import Operation
from tracer.lang.walk import below, walk, walk_clause

BEGAN, AROUND, DEPTH, SPENT, TOLD = "began", "around", "depth", "spent", "told"
"""The first parts of a note: when the call began; with `depth` the place of the call around it, and how deep it is;
where time is counted, how much probes had taken by then, and calls that had ended (`plan.calls.times`).
"""

TIMES = ("duration", "self_time", "probe_time")
"""The values of a call that are times."""

_MOST_CALLS = 1 << 14
"""Calls or spans under way, of a clause."""

_PURE = (
    IntLit, BoolLit, StrLit, Arg, Unary, Binary, Ternary, Cast, Part, Within, Pack, TupleExpr, TupleItem, Load, Str,
)  # fmt: skip
"""What can be computed from the arguments alone, as the call begins; and functions that are an operation of these."""

_NOTHING: dict[type, Callable[[Any, Span], Expr]] = {
    IntType: lambda type, span: IntLit(type, span, 0),
    PointerType: lambda type, span: IntLit(type, span, 0),
    BoolType: lambda type, span: BoolLit(type, span, False),
    StringType: lambda type, span: StrLit(type, span, b""),
}
"""What stands for memory that is not read, of types that have such."""

_REMEDY = "name the argument itself, as in str(arg0), or read it when the call ends: after(…)"

_Node = TypeVar("_Node", Expr, Stmt)


class Reads:
    """The predicate and the body of a clause of calls as they are at the end; `faults` gets what cannot be read.
    `noted` are the arguments that they ask for, `read` what they read in memory. Both are found in the variables of the
    slots `record` and `memory`; that of `ended` has the time, and those of `values` the values of these names.
    `counted`: a note has what times need. `span`: arguments in after() are those of the end.
    """

    def __init__(
        self, clause: Clause, faults: list[Diagnostic], values: tuple[str, ...] = TIMES, counted: bool = False,
        span: bool = False,
    ) -> None:  # fmt: skip
        self._faults, self._span = faults, span
        built_ins = {node.name for node in walk_clause(clause) if isinstance(node, Builtin)}
        self.deep = "depth" in built_ins and "depth" not in values
        self._parts = (BEGAN, *(AROUND, DEPTH) * self.deep, *(SPENT, TOLD) * counted)
        self.noted: list[Expr] = []
        self.read: list[Expr] = []
        self.record, self.memory, self.ended, *slots = range(len(clause.slots), len(clause.slots) + 3 + len(values))
        self.values = dict(zip(values, slots, strict=True))
        self._where: list[Expr] = []
        condition = None if clause.predicate is None else self._at_end(clause.predicate, False)
        self._where += () if clause.predicate is None else _conditions(clause.predicate, True)
        body = self._block(clause.body)
        # Now all is known that is noted, so the types of the notes.
        self.condition = None if condition is None else self.typed(condition)
        self.body = tuple([self.typed(statement) for statement in body])

    @property
    def note_type(self) -> TupleType:
        return TupleType((*(UINT64,) * len(self._parts), *(expression.type for expression in self.noted)))

    @property
    def memory_type(self) -> TupleType:
        return TupleType(tuple(expression.type for expression in self.read) or (UINT64,))

    @property
    def slots(self) -> tuple[Type, ...]:
        """The types of the variables of its own."""
        return (self.note_type, self.memory_type, UINT64, *(UINT64 for _ in self.values))

    def kept(self, memory: str, key: tuple[Expr, ...], span: Span) -> list[Stmt]:
        """The statements that read memory and keep it in a map ("" for none). What cannot be read ends the clause."""
        if not memory:
            return []
        return [MapSet(span, memory, key, TupleExpr(self.memory_type, span, tuple(self.read)))]

    def taken(self, map: str, key: tuple[Expr, ...], slot: int, span: Span) -> list[Stmt]:
        """Those that find what was kept, `record` or `memory` by its `slot`, and delete it. Where it is not there, that
        has been counted: it could not be read, or there was no room.
        """
        if not map:
            return []
        missing = Unary(BOOL, span, "!", Find(BOOL, span, map, key, slot))
        return [If(span, missing, (Return(span),), ()), Delete(span, map, key)]

    @property
    def asked(self) -> tuple[Stmt, ...]:
        """What the user wrote, behind its predicate."""
        if self.condition is None:
            return self.body
        return (If(self.condition.span, self.condition, self.body, ()),)

    def _block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements as they are at the end of the call."""
        before, statements = len(self._where), []
        for statement in body:
            statements.append(self._at_end(statement, False))
            match statement:
                case If(condition=condition, then=(*_, Return()), otherwise=()):
                    self._where += _conditions(condition, False)
        del self._where[before:]
        return tuple(statements)

    def _under(self, condition: Expr, holds: bool, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        before = len(self._where)
        self._where += _conditions(condition, holds)
        statements = self._block(body)
        del self._where[before:]
        return statements

    def _at_end(self, node: _Node, after: bool) -> _Node:
        """The statement or expression as it is at the end of the call. `after`: memory is to be read there."""
        result: Expr | None = None
        if isinstance(node, Builtin) and (slot := self.values.get(node.name)) is not None:
            return Var(UINT64, node.span, slot, f"${node.name}")
        match node:
            case If(condition=condition, then=then, otherwise=otherwise):
                first, second = self._under(condition, True, then), self._under(condition, False, otherwise)
                return replace(node, condition=self._at_end(condition, after), then=first, otherwise=second)
            case Call(name="after", args=(inside,)):
                result = self._at_end(inside, True)
            case Arg() | Cast(type=IntType(), operand=Arg()) if not (self._span and after):
                result = self._item(self.record, len(self._parts) + _number_in(self.noted, node), node)
            case Builtin(name="depth"):
                result = self.part(DEPTH, node.span)
            case Expr() if not after and _reads_memory(node):
                if all(map(_is_pure, walk(node))):
                    result = self._item(self.memory, _number_in(self.read, self._guarded(node)), node)
                elif _is_read(node) and not any(isinstance(inner, Retval) for inner in walk(node)):
                    what = "what memory holds is read when the call begins, and this address is known only when it ends"
                    fault = Diagnostic(what, node.span, _REMEDY)
                    self._faults += [] if fault in self._faults else [fault]
        if result is not None:
            return result  # type: ignore[return-value]
        match node:
            case Binary(op="&&" | "||" as op, left=left, right=right):
                first = self._at_end(left, after)
                return replace(node, left=first, right=self._one_under(left, op == "&&", right, after))
            case Ternary(condition=condition, then=then, otherwise=otherwise):
                one, other = (
                    self._one_under(condition, holds, part, after) for holds, part in ((True, then), (False, otherwise))
                )
                return replace(node, condition=self._at_end(condition, after), then=one, otherwise=other)
        return below(node, lambda child: self._at_end(child, after))

    def _one_under(self, condition: Expr, holds: bool, node: Expr, after: bool) -> Expr:
        before = len(self._where)
        self._where += _conditions(condition, holds)
        expression = self._at_end(node, after)
        del self._where[before:]
        return expression

    def _guarded(self, node: Expr) -> Expr:
        """The expression, read only where the conditions hold under which the clause asks for it, as far as they are of
        the arguments: `if (args.p != 0) { print(args.p->x); }` reads nothing at 0.
        """
        nothing = _NOTHING.get(type(node.type))
        if nothing is None or not self._where:
            return node
        condition = self._where[0]
        for further in self._where[1:]:
            condition = Binary(BOOL, node.span, "&&", condition, further)
        return Ternary(node.type, node.span, condition, node, nothing(node.type, node.span))

    def _item(self, slot: int, place: int, node: Expr) -> Expr:
        # The tuple's type is known once all has been looked at: `typed` puts it in.
        return TupleItem(node.type, node.span, Var(UINT64, node.span, slot, "$call"), place)

    def part(self, name: str, span: Span) -> Expr:
        """A part of a note that has been found. What it is taken from gets its type by `typed`."""
        return self._item(self.record, self._parts.index(name), IntLit(UINT64, span, 0))

    def typed(self, node: _Node) -> _Node:
        """The statement or expression with the types of what was noted."""
        types = {self.record: self.note_type, self.memory: self.memory_type}
        if isinstance(node, Var) and node.slot in types:
            return replace(node, type=types[node.slot])
        return below(node, self.typed)


def _conditions(condition: Expr, holds: bool) -> list[Expr]:
    """The conditions that are known as a call begins, where one holds or not: its parts that are of the arguments."""
    if holds:
        match condition:
            case Binary(op="&&", left=left, right=right):
                return [*_conditions(left, True), *_conditions(right, True)]
            case Cast(type=BoolType(), operand=operand):
                return _conditions(operand, True)
    if not all(map(_is_pure, walk(condition))):
        return []
    return [condition if holds else Unary(BOOL, condition.span, "!", condition)]


def _is_read(node: Expr | Stmt) -> bool:
    """Whether it reads memory itself."""
    return isinstance(node, Load | Str) or (isinstance(node, Call) and node.name == "buf")


def _reads_memory(node: Expr | Stmt) -> bool:
    return any(map(_is_read, walk(node)))


def _is_pure(node: Expr | Stmt) -> bool:
    """Whether it can be computed from the arguments alone."""
    if isinstance(node, Call):
        return _is_read(node) or isinstance(built_in_of(node).lower, Operation)
    return isinstance(node, _PURE)


def _number_in(values: list[Expr], node: Expr) -> int:
    """The number of an expression among some, at whose end it is put where it is new."""
    bare = _bare(node)
    number = next((index for index, value in enumerate(values) if _bare(value) == bare), len(values))
    if number == len(values):
        values.append(node)
    return number


def _bare(node: Expr) -> Expr:
    """The expression without its places in the text: the same wherever it stands."""
    return replace(below(node, _bare), span=NOWHERE)


def inner_map(name: str, key: tuple[Type, ...], value: Type, span: Span) -> MapDecl:
    """The declaration of a map of tracer's own for as many calls or spans as are followed."""
    return MapDecl(name, key, "scalar", value, span, (), _MOST_CALLS, inner=True)


def word(op: str, left: Expr, right: Expr) -> Expr:
    """An operation on unsigned words."""
    return Binary(UINT64, left.span, op, left, right)
