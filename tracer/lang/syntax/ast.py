"""The syntax tree: what the parser makes of the text, before any name or type is looked up."""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.errors import Source, Span
from tracer.kinds.model import AttachPoint as AttachPoint
from tracer.lang.types.declared import Declared


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type as written in a cast or a `let`: `int32`, `uint8 *`, `uint8[4]`, `struct sock *`. `name` is what stands
    before the `suffixes`: None for a `*`, a count for an array, 0 for `[]`. `struct`: a `struct`, `union` or `enum`.
    `of`: the expression of `typeof($x)`.
    """

    name: str
    span: Span
    suffixes: tuple[int | None, ...] = ()
    struct: bool = False
    of: Expr | None = None


# --- expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of all expressions."""

    span: Span


@dataclass(frozen=True, slots=True)
class IntLit(Expr):
    """An integer literal, 0 to 2**64 - 1; durations are in nanoseconds already."""

    value: int


@dataclass(frozen=True, slots=True)
class DecimalLit(Expr):
    """A number with a fraction, as it is written: `99.9`."""

    text: str


@dataclass(frozen=True, slots=True)
class BoolLit(Expr):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class StrLit(Expr):
    """A string literal, its escapes resolved."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Param(Expr):
    """`$1`: `text` is the argument on the command line, None where there are not so many."""

    index: int
    text: str | None

    def bytes(self) -> bytes:
        """The argument as a string in C: up to a NUL."""
        return (self.text or "").encode("utf-8", "surrogateescape").split(b"\0")[0]


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A bare word: a built-in such as `pid`."""

    name: str


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """`$x`; the name carries its `$`."""

    name: str


@dataclass(frozen=True, slots=True)
class MapRef(Expr):
    """`@x` or `@x[key]`; the name carries its `@`, `key` is () without brackets."""

    name: str
    key: tuple[Expr, ...]
    name_span: Span


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """`name(args)`."""

    name: str
    args: tuple[Expr, ...]
    name_span: Span


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`- ~ ! *` before an expression."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class IncDec(Expr):
    """`++` or `--`, before or after a variable or a map."""

    op: str
    prefix: bool
    target: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """An operator between two expressions."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary(Expr):
    """`condition ? then : otherwise`, and an `if` with a value; `word` is how a message names it."""

    condition: Expr
    then: Expr
    otherwise: Expr
    word: str = "'?'"


@dataclass(frozen=True, slots=True)
class Elvis(Expr):
    """`value ?: otherwise`: the value where it is true, looked at once."""

    value: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class BlockExpr(Expr):
    """`{ …; value }`: statements, and the value of the whole. None stands for a value that is missing. `callee`: the
    macro or function that it is a call of, in words ("the macro m()"). `acts`: its value need not be used.
    """

    body: tuple[Stmt, ...]
    value: Expr | None
    callee: str = ""
    acts: bool = False


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """`(type)operand`."""

    type: TypeName
    operand: Expr


@dataclass(frozen=True, slots=True)
class Comptime(Expr):
    """`comptime operand`: has to be known before the first hit."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class TupleExpr(Expr):
    """`(a, b, …)`, and the record `(x=a, y=b, …)`, which has a name for each item."""

    items: tuple[Expr, ...]
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeExpr(Expr):
    """A type where an expression may stand: an argument of a function that takes one."""

    type: TypeName


@dataclass(frozen=True, slots=True)
class Field(Expr):
    """`operand.name`, `operand->name`, or with a number `$t.0`."""

    operand: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Index(Expr):
    """`operand[index]` on anything but a map."""

    operand: Expr
    index: Expr


# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stmt:
    """Base of all statements."""

    span: Span


@dataclass(frozen=True, slots=True)
class ExprStmt(Stmt):
    """An expression for its effect; `discarded` is `_ = expr`, which says that the value is not wanted. `last`: no `;`
    is behind it, so it is the value of a block that has one.
    """

    expr: Expr
    discarded: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class Assign(Stmt):
    """`target op value`; `op` is `=` or `+=` and its kin, `target` a `Var` or a `MapRef`."""

    target: Var | MapRef
    op: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """`let $x`, `let $x: type`, `let $x = value`."""

    target: Var
    type: TypeName | None
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """`{ … }` as a statement; `callee` as in `BlockExpr`."""

    body: tuple[Stmt, ...]
    callee: str = ""


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """`if (condition) { then } else { otherwise }`; `else if` is an `If` alone in `otherwise`. `word`: how a message
    names it, as `desugar` makes it of `?` too.
    """

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]
    word: str = "if"


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """`while (condition) { body }`."""

    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Unroll(Stmt):
    """`unroll (count) { body }`."""

    count: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ForRange(Stmt):
    """`for ($i : start..stop) { body }`."""

    target: Var
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ForMap(Stmt):
    """`for ($kv : @map) { body }`."""

    target: Var
    map: MapRef
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """`return`. The value is that of a function's call; in a clause it is allowed and ignored, as in bpftrace."""

    value: Expr | None


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    """`break`."""


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    """`continue`."""


# --- program ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of `config = { … }`: the value is an int, a bool, a string or a bare word, as text."""

    name: str
    value: str
    span: Span
    value_span: Span


@dataclass(frozen=True, slots=True)
class Clause:
    """`attach points /predicate/ { body }`. `uncalled`: it never runs, and checks a function that nobody calls. `bare`:
    it has no body, and shows its hits (`check.bare`). `by`: of `span:PROBE..PROBE by KEY`.
    """

    points: tuple[AttachPoint, ...]
    predicate: Expr | None
    body: tuple[Stmt, ...]
    span: Span
    uncalled: bool = False
    bare: bool = False
    by: Expr | None = None

    @property
    def until(self) -> AttachPoint | None:
        """The end of a span."""
        return self.points[0].until if self.points else None


@dataclass(frozen=True, slots=True)
class Macro:
    """`macro name(params) { body }`; a parameter is a `Var`, a `MapRef` or a `Name`. `head` ends before the body."""

    name: str
    params: tuple[Var | MapRef | Name, ...]
    body: tuple[Stmt, ...]
    head: Span


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """`fn name($a: type, …): result { body }`. `head` ends before the body."""

    name: str
    params: tuple[Var, ...]
    types: tuple[TypeName, ...]
    result: TypeName
    body: tuple[Stmt, ...]
    head: Span


@dataclass(frozen=True, slots=True)
class MapDeclaration:
    """`let @name = kind(most);` before the clauses: the kind of map in BPF, and how many keys it can hold."""

    name: str
    kind: str
    most: int
    span: Span


@dataclass(frozen=True, slots=True)
class Program:
    """The whole text."""

    source: Source
    config: tuple[Setting, ...]
    clauses: tuple[Clause, ...]
    types: Declared = Declared()
    macros: tuple[Macro, ...] = ()
    options: tuple[str, ...] = ()
    """What `getopt()` reads: the arguments on the command line that begin with `--`."""
    maps: tuple[MapDeclaration, ...] = ()
    functions: tuple[FunctionDefinition, ...] = ()
