"""The typed program: what `analyse` makes of the AST, and what every later stage works on.

Every expression carries its type and the span of the user's text it came from. All conversions are explicit here
(`Cast`): both operands of an arithmetic `Binary` have the type of its result, both operands of a comparison have one
type, and what is stored in a map has the type its `MapDecl` states. Literals are folded as far as they go; `unroll` is
already expanded, and keys written `@[(a, b)]` are the same as `@[a, b]`.

Semantics shared by the C that BCC compiles and by the Python of what runs in user space:

* Integers wrap at their width. Division and remainder truncate towards zero; `x / 0` is 0 and `x % 0` is x, as in BPF.
  Shift counts are taken modulo 64. `>>` of a signed value keeps the sign.
* `&&`, `||` and `?:` evaluate only what they need. Comparisons and logical operators give `bool`.
* Operands, arguments and the parts of a key are evaluated from left to right; an assigned value before the key of the
  map it goes to, as bpftrace does it.
* A missing map key reads as 0, "" or a tuple of those. Reading does not create the key.
* `Str` of address 0 is "". `Str`, `Load` or an argument in memory that cannot be read ends the clause at that point for
  that hit, and the hit is counted in `Loss.unreadable`: never a made-up value.
* A string longer than its buffer is cut to size - 1 bytes and counted in `Loss.truncated`, unless the program itself
  gave the size (`str(x, 16)`): once at a hit for each `str(…)` whose address is fixed there (`told_once`), else each
  time it is read. `str(x, n)` needs no byte of memory behind the n - 1 that it shows; `str(x, 1)` needs none.
* `While` and `ForRange` run at most `LOOP_LIMIT` rounds, in user space `LOCAL_LOOP_LIMIT`; a loop that is cut
  there is counted in `Loss.loops`.
* `Exit` ends the clause; no hit of any clause after it counts.
"""

from __future__ import annotations

from typing import Literal

from tracer.dataclass import dataclass, field
from tracer.errors import Diagnostic, Source, Span
from tracer.lang.types import Type
from tracer.resolve.model import Site

LOOP_LIMIT = 1024
"""Rounds in a probe: the verifier of the kernel goes through each of them."""
LOCAL_LOOP_LIMIT = 1 << 16
"""Rounds in BEGIN, END and interval, which run in user space."""


# --- expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of all expressions."""

    type: Type
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
    """To an integer type from an integer or bool; to bool from an integer; to a wider string buffer; to a record with
    the same fields in another order.
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
    """What lies at a byte offset (uint64) in a struct, union or array that has been read: an integer, a bool, a struct,
    union or array, or the string in an array of `type.size - 1` chars. Behind the end all is 0.
    """

    operand: Expr
    offset: Expr


@dataclass(frozen=True, slots=True)
class Pack(Expr):
    """The bytes of integers, one behind the other, as an array or struct."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Str(Expr):
    """`str(addr)` or `str(addr, N)`: a string in the memory of the hit process; `type.size` is the buffer.

    `sized`: the program gave the size, so a cut is what it asked for. `length` (uint64) is a size known only at the
    hit: up to `type.size` it is as if it stood there, beyond that as if none did.
    """

    address: Expr
    sized: bool
    length: Expr | None = None


@dataclass(frozen=True, slots=True)
class UStack(Expr):
    """`ustack`, `ustack(n)`: `type.frames` frames at most."""


@dataclass(frozen=True, slots=True)
class USym(Expr):
    """`usym(addr)`."""

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


# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stmt:
    """Base of all statements."""

    span: Span


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


OutputKind = Literal["errorf", "warnf", "debugf", "cat", "system", "join"]


@dataclass(frozen=True, slots=True)
class Output:
    """What becomes of a text that is not printed as printf does: it is a message, the name of a file to show, a command
    to run, or what `join()` prints. `span` is the call.
    """

    kind: OutputKind
    span: Span


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
    """`exit()` or `exit(code)`."""

    code: int


# --- program ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MapDecl:
    """A map: its name with the `@`, the types of its key's parts (() without key), and what it holds.

    `value` is the scalar's type, or the integer type that an aggregation works in (its signedness decides how sum, min,
    max, avg, stats and hist read it). `kind` is "scalar" or the name of an aggregation; `parameters` are its constants.
    `most` is how many keys its declaration (`let @x = hash(5);`) allows, 0 without one; `forgets`: where there are as
    many, the key that was written longest ago makes room for a new one (`lruhash(5)`).
    """

    name: str
    key: tuple[Type, ...]
    kind: str
    value: Type
    span: Span
    parameters: tuple[int, ...] = ()
    most: int = 0
    forgets: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """`probe, probe /predicate/ { body }`.

    `kind`: "begin", "end", "interval" (every `period_ns`) run in user space and have no sites; "probe" runs at `sites`,
    which may mix usdt, uprobe and uretprobe. `slots` are the types of the scratch variables. `names` are the attach
    points as written, `spans` where they stand.
    """

    id: int
    kind: Literal["begin", "end", "interval", "probe"]
    names: tuple[str, ...]
    predicate: Expr | None
    body: tuple[Stmt, ...]
    slots: tuple[Type, ...]
    span: Span
    sites: tuple[Site, ...] = ()
    period_ns: int = 0
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """What `config = { … }` or the environment sets: sizes in bytes, counts, words. A `stack_copy` of 0 leaves it to
    the backend how much of a stack is copied to be walked.
    """

    max_strlen: int = 1024
    max_map_keys: int = 16384
    max_probes: int = 16384
    max_cat_bytes: int = 10240
    stack_copy: int = 0
    stack_frames: int = 127
    stack_mode: str = "bpftrace"
    stack_unwind: str = "auto"
    missing_probes: str = "error"
    unsafe_returns: bool = False
    unsafe: bool = False
    print_maps_on_exit: bool = True
    show_debug_info: bool = False
    cpp_demangle: bool = True
    tuning: tuple[tuple[str, int | bool | str], ...] = ()
    """Settings that only `config()` tells."""


@dataclass(frozen=True, slots=True)
class Program:
    """The whole typed program. `formats` are printf and time texts, `outputs` says of those that are not printed what
    becomes of them; `shapes` are the types that print() shows.

    Bytes of a format that are not UTF-8 stand in it as Python's surrogate escapes, so in `TimestampType.format`.
    """

    source: Source
    clauses: tuple[Clause, ...]
    maps: dict[str, MapDecl]
    formats: tuple[str, ...]
    shapes: tuple[Type, ...]
    config: Config = field(default_factory=Config)
    warnings: tuple[Diagnostic, ...] = ()
    outputs: dict[int, Output] = field(default_factory=dict)

    def most_keys(self, map: str) -> int:
        """How many keys a map can hold."""
        return self.maps[map].most or self.config.max_map_keys
