"""Expressions: each has a value of a type; and what expressions and statements begin as."""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.errors import Span
from tracer.lang.types import Type


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of all expressions."""

    type: Type
    span: Span


@dataclass(frozen=True, slots=True)
class Stmt:
    """Base of all statements."""

    span: Span


@dataclass(frozen=True, slots=True)
class IntLit(Expr):
    """An integer constant, already wrapped to `type`."""

    value: int


@dataclass(frozen=True, slots=True)
class BoolLit(Expr):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class StrLit(Expr):
    """A string constant; `type.size` is its length plus one."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Builtin(Expr):
    """`pid tid uid gid cpu nsecs elapsed comm probe func username cpid`, by name.

    pid, tid, uid, gid, cpu, cpid: uint64 here whatever bpftrace's width, nsecs and elapsed: uint64; comm: string[16];
    probe and func: strings that are known for each site before attaching; username: UsernameType.
    In BEGIN, END and interval they are the tracer's own.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Arg(Expr):
    """`argN`, extended from the size and sign that the site's argument has: int64 where a site has a signed one, else
    uint64. A float32 or float64 is its bits.
    """

    index: int


@dataclass(frozen=True, slots=True)
class Retval(Expr):
    """`retval` in a uretprobe: uint64, the whole return register."""


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A scratch variable: a slot of its clause (`Clause.slots`)."""

    slot: int
    name: str


@dataclass(frozen=True, slots=True)
class MapGet(Expr):
    """`@map[key]` as a value; `key` is () for a map without one.

    Of an aggregation: count, sum, min, max as they are, avg and stats their average.
    """

    map: str
    key: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MapLen(Expr):
    """`len(@map)`: how many keys it holds."""

    map: str


@dataclass(frozen=True, slots=True)
class HasKey(Expr):
    """`has_key(@map, key)`."""

    map: str
    key: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Deleted(Expr):
    """`delete(@map, key)` as a value: whether the key was there."""

    map: str
    key: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Find(Expr):
    """`find(@map, key, $x)`: whether the map holds the key; then the variable becomes its value."""

    map: str
    key: tuple[Expr, ...]
    slot: int


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`-`, `~` (type of the operand) or `!` (bool; the operand is an int or a bool)."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """`+ - * / % & | ^ << >>` on integers, `== != < <= > >=` on integers, `== !=` on strings and tuples, `&& ||` on
    integers and bools.
    """

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary(Expr):
    """`condition ? then : otherwise`; both arms have the type of the whole (strings: the larger buffer)."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class BlockExpr(Expr):
    """`{ …; value }`: the statements run, then the value is looked at."""

    body: tuple[Stmt, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """A conversion: to an integer type from an integer or bool; to bool from an integer; to a wider string buffer; to a
    record with the same fields in another order.
    """

    operand: Expr


@dataclass(frozen=True, slots=True)
class TupleExpr(Expr):
    """`(a, b, …)`."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class TupleItem(Expr):
    """`$t.0`."""

    operand: Expr
    index: int


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """`*(int32 *)addr`: reads memory of the hit process at `address` (uint64), in the width and sign of `type`, the
    bits of a float, or all the bytes of a struct, union or array.
    """

    address: Expr


@dataclass(frozen=True, slots=True)
class Part(Expr):
    """The part at a byte offset (uint64) of a struct, union or array that has been read: an integer, a bool, a struct,
    union or array, or the string in an array of `type.size - 1` chars. Behind the end all is 0.
    """

    operand: Expr
    offset: Expr


@dataclass(frozen=True, slots=True)
class Within(Expr):
    """An index of `count` elements, of the type of `index`. One outside them ends the clause at a hit, and the
    statement in BEGIN, END and intervals; it is counted as a value that cannot be read.
    """

    index: Expr
    count: int


@dataclass(frozen=True, slots=True)
class Pack(Expr):
    """The bytes of integers, one behind the other, as an array or struct."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Str(Expr):
    """`str(addr)` or `str(addr, N)`: a string in the memory of the hit process; `type.size` is the buffer.

    `sized`: the program gave the size, so a cut is what it asked for. `length` (uint64) is a size known only at the
    hit: up to `type.size` it is as if it stood there, beyond that as if none did. `array`: an array of char, which has
    bytes behind a NUL too.
    """

    address: Expr
    sized: bool
    length: Expr | None = None
    array: bool = False


@dataclass(frozen=True, slots=True)
class UStack(Expr):
    """`ustack`, `ustack(n)`: `type.frames` frames at most."""


@dataclass(frozen=True, slots=True)
class KStack(Expr):
    """`kstack`, `kstack(n)`: `type.frames` frames at most."""


@dataclass(frozen=True, slots=True)
class USym(Expr):
    """`usym(addr)`."""

    address: Expr


@dataclass(frozen=True, slots=True)
class KSym(Expr):
    """`ksym(addr)`."""

    address: Expr


@dataclass(frozen=True, slots=True)
class Strftime(Expr):
    """`strftime(fmt, ns)`: the format stands in `type`."""

    nanoseconds: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A call of a function without a node of its own: its object in `lang.builtins` says what it means."""

    name: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class VarIncr(Expr):
    """`$x++` and its kin: adds `delta` (1 or -1); the value is the new one for the prefix form, else the old."""

    slot: int
    delta: int
    prefix: bool


@dataclass(frozen=True, slots=True)
class MapIncr(Expr):
    """`@x[k]++` and its kin, atomic; the value as in `VarIncr`."""

    map: str
    key: tuple[Expr, ...]
    delta: int
    prefix: bool
