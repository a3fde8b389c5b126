"""Statements: what a clause does, and in which order."""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.lang.typed.expressions import Expr, Stmt


@dataclass(frozen=True, slots=True)
class VarSet(Stmt):
    """`$x = value`; compound assignments arrive here already expanded."""

    slot: int
    value: Expr


@dataclass(frozen=True, slots=True)
class MapSet(Stmt):
    """`@x[key] = value` on a scalar map. Compound assignments other than += and -= arrive here expanded."""

    map: str
    key: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class MapAdd(Stmt):
    """`@x[key] += value`, `-=` (value negated) and `@x[key]++;` whose value nobody uses: atomic."""

    map: str
    key: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Aggregate(Stmt):
    """`@x[key] = count()` and the other aggregations; their parameters stand in the map's `MapDecl`."""

    map: str
    key: tuple[Expr, ...]
    function: str
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Delete(Stmt):
    """`delete(@x, key)`, or `delete(@x)` of a map without key."""

    map: str
    key: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ExprStmt(Stmt):
    """An expression for its side effect."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """`if (condition) { then } else { otherwise }`."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """`while (condition) { body }`, at most so many rounds."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ForRange(Stmt):
    """`for ($i : start..stop) { body }`, stop excluded; both bounds are evaluated once."""

    slot: int
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ForMap(Stmt):
    """`for ($kv : @map) { body }`: the slot holds the tuple (key, value)."""

    slot: int
    map: str
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """Ends the clause."""


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    """Ends the innermost loop."""


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    """Next round of the innermost loop."""


@dataclass(frozen=True, slots=True)
class Printf(Stmt):
    """`printf(fmt, …)`: `format` is an index into `Program.formats`, which stands for the types of `args` as well, and
    for the text's `Output`.
    """

    format: int
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class PrintValue(Stmt):
    """`print(expr)`: `shape` is an index into `Program.shapes` (the type of the value)."""

    shape: int
    value: Expr


@dataclass(frozen=True, slots=True)
class PrintMap(Stmt):
    """`print(@x)`, `print(@x, top)`, `print(@x, top, div)`; 0 stands for "not given"."""

    map: str
    top: int
    div: int


@dataclass(frozen=True, slots=True)
class Clear(Stmt):
    """`clear(@x)`: no keys are left."""

    map: str


@dataclass(frozen=True, slots=True)
class Zero(Stmt):
    """`zero(@x)`: the keys stay, their values are 0."""

    map: str


@dataclass(frozen=True, slots=True)
class Time(Stmt):
    """`time(fmt)`: prints the wall clock; `format` is an index into `Program.formats`."""

    format: int


@dataclass(frozen=True, slots=True)
class Exit(Stmt):
    """`exit()` or `exit(code)`, a uint8."""

    code: Expr
