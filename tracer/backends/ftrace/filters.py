"""The part of a predicate that the kernel's event filter expresses exactly.

A hit that the kernel drops must be one for which the interpreter would have found the predicate false, without counting
anything as unreadable on the way. So only a prefix of the `&&` chain is taken, and in it only comparisons of numbers
from registers with constants: those cannot fail. The filter compares in the field's own size and sign
(`trace/events.rst`), so the constant must fit it, and the order of the values must be the same there as in the type of
the comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracer.backends.ftrace.fetchargs import Fetch, Number, Source
from tracer.lang.typed import Binary, BoolLit, Cast, Expr, IntLit, Unary
from tracer.lang.types import BoolType, IntType

SourceOf = Callable[[Expr], Source | None]
"""The source of a leaf, None for anything else."""

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True)
class Filter:
    """An event filter; `whole` if nothing of the predicate is left to the interpreter."""

    text: str
    whole: bool


def push_down(predicate: Expr, source_of: SourceOf, fetches: tuple[Fetch, ...]) -> Filter | None:
    """The filter for as much of the predicate as goes, None where nothing does."""
    parts = _conjuncts(predicate)
    texts: list[str] = []
    for part in parts:
        text = _text(part, source_of, fetches)
        if text is None:
            break
        texts.append(text)
    if not texts:
        return None
    return Filter(" && ".join(texts), len(texts) == len(parts))


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
