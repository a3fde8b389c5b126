"""The part of a predicate that the kernel's event filter expresses exactly.

A hit that the kernel drops must be one for which the interpreter would have found the predicate false, without counting
anything as unreadable on the way. So the parts of the `&&` chain are taken up to the first one that could fail, and of
these the comparisons with constants: of numbers from registers, and of `comm`. The filter compares numbers in the
field's own size and sign (`trace/events.rst`), so the constant must fit it, and the order of the values must be the
same there as in the type of the comparison.

What the kernel could test too, but not as we do:

* A string in memory. Where it cannot be read the filter compares what happens to stand in the event's buffer, and a hit
  that it drops can no longer be counted as unreadable.
* `pid`, `tid`. `common_pid` is the thread, and numbered in the first pid namespace, which may not be ours.
"""

from __future__ import annotations

from collections.abc import Callable

from tracer.backends.ftrace.fetchargs import (
    ChildPid,
    Constant,
    FromSample,
    Number,
    Source,
    ThreadName,
)
from tracer.dataclass import dataclass
from tracer.kernel.uprobe_events.model import Fetch
from tracer.lang.typed import (
    Arg,
    Binary,
    BoolLit,
    Builtin,
    Cast,
    Expr,
    IntLit,
    MapGet,
    Retval,
    Strcontains,
    Strlen,
    StrLit,
    Strncmp,
    Ternary,
    TupleExpr,
    TupleItem,
    Unary,
)
from tracer.lang.types import BoolType, IntType, StringType
from tracer.lang.walk import walk

SourceOf = Callable[[Expr], Source | None]
"""The source of a leaf, None for anything else."""

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


_LONGEST_NAME = 15  # TASK_COMM_LEN less the NUL
_WITHOUT_EFFECT = (
    Arg, Binary, BoolLit, Builtin, Cast, IntLit, MapGet, Retval, Strcontains, Strlen, StrLit, Strncmp, Ternary,
    TupleExpr, TupleItem, Unary,
)  # fmt: skip
"""Expressions that change nothing, and that fail only where a leaf in them does."""


@dataclass(frozen=True, slots=True)
class Filter:
    """An event filter; `whole` if nothing of the predicate is left to the interpreter."""

    text: str
    whole: bool


def push_down(
    predicate: Expr, source_of: SourceOf, fetches: tuple[Fetch, ...]
) -> tuple[Filter | None, tuple[Expr, ...]]:
    """The filter for as much of the predicate as goes (None where nothing does), and the parts that it leaves."""
    parts = _conjuncts(predicate)
    texts: list[str] = []
    left: list[Expr] = []
    for number, part in enumerate(parts):
        text = _text(part, source_of, fetches)
        if text is not None:
            texts.append(text)
        elif _cannot_fail(part, source_of):
            left.append(part)
        else:
            left += parts[number:]
            break
    return Filter(" && ".join(texts), not left) if texts else None, tuple(left)


def _cannot_fail(part: Expr, source_of: SourceOf) -> bool:
    """Whether a part is true or false at every hit, and does nothing else: then later ones may be tested before it."""
    for node in walk(part):
        if not isinstance(node, _WITHOUT_EFFECT):
            return False
        if isinstance(node, (Arg, Retval, Builtin)):
            match source_of(node):
                case Number(guard=None) | ThreadName() | FromSample() | ChildPid():
                    pass
                case Constant(value) if value is not None:
                    pass
                case None if isinstance(node, Builtin):
                    pass  # probe and func, which are known beforehand
                case _:
                    return False
    return True


def _conjuncts(expr: Expr) -> list[Expr]:
    expr = _plain(expr)
    if isinstance(expr, Binary) and expr.op == "&&":
        return [*_conjuncts(expr.left), *_conjuncts(expr.right)]
    return [expr]


def _plain(expr: Expr) -> Expr:
    """Without casts between bool and bool or to bool, which change nothing in a condition."""
    while isinstance(expr, Cast) and isinstance(expr.type, BoolType):
        expr = expr.operand
    return expr


def _text(expr: Expr, source_of: SourceOf, fetches: tuple[Fetch, ...]) -> str | None:
    expr = _plain(expr)
    match expr:
        case Binary(op="&&" | "||" as op, left=left, right=right):
            first, second = _text(left, source_of, fetches), _text(right, source_of, fetches)
            return None if first is None or second is None else f"({first} {op} {second})"
        case Unary(op="!", operand=operand):
            inner = _text(operand, source_of, fetches)
            return None if inner is None else f"!({inner})"
        case Binary(op="==" | "!=" as op, left=left, right=right) if isinstance(left.type, StringType):
            return _named(op, left, right, source_of) or _named(op, right, left, source_of)
        case Binary(op=op, left=left, right=right) if op in _MIRRORED and isinstance(left.type, IntType):
            if (text := _comparison(op, left, right, source_of, fetches)) is not None:
                return text
            return _comparison(_MIRRORED[op], right, left, source_of, fetches)
        case BoolLit() | IntLit():
            return None
        case _ if isinstance(expr.type, IntType):
            # A number as a condition: true where it is not 0.
            zero = IntLit(expr.type, expr.span, 0)
            return _comparison("!=", expr, zero, source_of, fetches)
    return None


def _named(op: str, left: Expr, right: Expr, source_of: SourceOf) -> str | None:
    """`comm == "app"`. The filter compares the whole name, wildcards are none there; it has no way to escape quotes."""
    while isinstance(left, Cast):
        left = left.operand
    while isinstance(right, Cast):
        right = right.operand
    if not isinstance(right, StrLit) or not isinstance(source_of(left), ThreadName):
        return None
    name = right.value.decode("ascii", "replace")
    if len(name) > _LONGEST_NAME or not name.isascii() or not name.isprintable() or set(name) & set("\"'\\"):
        return None
    return f'COMM {op} "{name}"'


def _comparison(op: str, left: Expr, right: Expr, source_of: SourceOf, fetches: tuple[Fetch, ...]) -> str | None:
    constant = _constant(right)
    if constant is None:
        return None
    type = left.type
    leaf = left
    while isinstance(leaf, Cast) and _same_width(leaf):
        leaf = leaf.operand
    source = source_of(leaf)
    if not isinstance(type, IntType) or type.bits != 64 or not isinstance(source, Number) or source.guard is not None:
        return None
    fetch = fetches[source.fetch]
    if "(" in fetch.place or "@" in fetch.place:
        return None  # memory: 0 where it cannot be read
    signed, bits = fetch.type[0] == "s", int(fetch.type[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if type.signed or not signed:
        value = constant
    else:
        # Sign-extended and read as unsigned: equal numbers stay equal, but the order is another.
        if op not in ("==", "!="):
            return None
        value = constant - (1 << 64) if constant >> 63 else constant
    if type.signed and not signed and bits == 64:
        if op not in ("==", "!="):
            return None
        value = constant & high
    return f"f{source.fetch} {op} {value}" if low <= value <= high else None


def _same_width(cast: Cast) -> bool:
    """A cast between 64-bit integers: the bits stay."""
    inner = cast.operand.type
    return isinstance(cast.type, IntType) and cast.type.bits == 64 and isinstance(inner, IntType) and inner.bits == 64


def _constant(expr: Expr) -> int | None:
    """The value of a constant in the type of the expression."""
    if isinstance(expr, IntLit):
        return expr.value
    if isinstance(expr, Cast) and _same_width(expr) and (inner := _constant(expr.operand)) is not None:
        assert isinstance(expr.type, IntType)
        inner &= (1 << 64) - 1
        return inner - (1 << 64) if expr.type.signed and inner >> 63 else inner
    return None
