"""The texts of a program that are its own are written in it, or put together from such. All others may be anybody's."""

from __future__ import annotations

from tracer.lang.typed import (
    Aggregate,
    BlockExpr,
    BoolLit,
    Call,
    Cast,
    Expr,
    Find,
    ForMap,
    IntLit,
    MapAdd,
    MapGet,
    MapSet,
    Printf,
    PrintValue,
    Program,
    StrLit,
    Ternary,
    TupleExpr,
    TupleItem,
    Var,
    VarSet,
)
from tracer.lang.typed.expressions import Strftime
from tracer.lang.walk import walk_clause


class OwnTexts:
    """The texts of a program's own, in its formats, in what it prints, and in its maps. A variable or a map is its own
    where all is that is ever put there.
    """

    def __init__(self, program: Program) -> None:
        self._nodes = [(clause.id, node) for clause in program.clauses for node in walk_clause(clause)]
        self._foreign: set[tuple[int | str, int]] = set()
        """Variables by clause and slot, parts of keys of a map by its name and their place, its value by -1."""
        before = -1
        while len(self._foreign) != before:
            before = len(self._foreign)
            for clause, node in self._nodes:
                self._note(clause, node)
        self._formats: dict[int, list[bool]] = {}
        self._shapes: dict[int, bool] = {}
        for clause, node in self._nodes:
            if isinstance(node, Printf):
                are_own = [self._is_own(clause, arg) for arg in node.args]
                earlier = self._formats.setdefault(node.format, are_own)
                self._formats[node.format] = [one and other for one, other in zip(earlier, are_own, strict=True)]
            elif isinstance(node, PrintValue):
                self._shapes[node.shape] = self._shapes.get(node.shape, True) and self._is_own(clause, node.value)

    def arguments(self, format: int) -> tuple[int, ...]:
        """The places of those arguments of a printf that are its own wherever it stands."""
        return tuple(place for place, is_own in enumerate(self._formats.get(format, ())) if is_own)

    def printed(self, shape: int) -> bool:
        """Whether all values of a type that print() shows are."""
        return self._shapes.get(shape, False)

    def key(self, map: str, parts: int) -> tuple[bool, ...]:
        """Whether each part of a map's keys is the program's own."""
        return tuple((map, place) not in self._foreign for place in range(parts))

    def value(self, map: str) -> bool:
        """Whether all values of a map are."""
        return (map, -1) not in self._foreign

    def _note(self, clause: int, node: object) -> None:
        if isinstance(node, VarSet):
            self._mark(clause, node.slot, self._is_own(clause, node.value))
        elif isinstance(node, MapSet | MapAdd | Aggregate):
            for place, part in enumerate(node.key):
                self._mark(node.map, place, self._is_own(clause, part))
            self._mark(node.map, -1, isinstance(node, MapSet) and self._is_own(clause, node.value))
        elif isinstance(node, ForMap):
            self._mark(clause, node.slot, not any(key == node.map for key, _ in self._foreign))
        elif isinstance(node, Find):
            self._mark(clause, node.slot, self.value(node.map))

    def _mark(self, where: int | str, place: int, is_own: bool) -> None:
        if not is_own:
            self._foreign.add((where, place))

    def _is_own(self, clause: int, expr: Expr) -> bool:
        match expr:
            case IntLit() | BoolLit() | StrLit() | Strftime():
                return True
            case Ternary(then=one, otherwise=other):
                return self._is_own(clause, one) and self._is_own(clause, other)
            case BlockExpr(value=operand) | Cast(operand=operand) | TupleItem(operand=operand):
                return self._is_own(clause, operand)
            case TupleExpr(items=items) | Call(name="str_concat", args=items):
                return all(self._is_own(clause, item) for item in items)
            case Var(slot=slot):
                return (clause, slot) not in self._foreign
            case MapGet(map=map):
                return self.value(map)
            case _:
                return False
