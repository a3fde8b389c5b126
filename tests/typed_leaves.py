"""What a clause reads at a hit: the leaves that a backend delivers and the interpreter computes with.

A hit reaches the interpreter as one flat tuple with a value for each expression of `fetches(clause)`, in that order, in
the Python form of `lang.types`; None where it could not be read (which ends the clause when, and only when, the
value is needed). Strings are delivered uncut; the interpreter cuts them. A string whose size is known only at the hit
is delivered as a `Reach`: whether it can be read depends on that size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracer.dataclass import names, replace
from tracer.errors import NOWHERE, Span
from tracer.lang.typed import (
    Arg,
    Binary,
    Builtin,
    Cast,
    Clause,
    Expr,
    IntLit,
    Load,
    Retval,
    Stmt,
    Str,
    UStack,
    USym,
)
from tracer.lang.types import UINT64, IntType

_CONSTANT_BUILTINS = frozenset({"probe", "func"})
_READ_AS = {"elapsed": "nsecs", "username": "uid"}

PID = Builtin(UINT64, NOWHERE, "pid")
"""The leaf that `usym` needs beside its address."""

ANY_SIZE = IntLit(UINT64, NOWHERE, 0)
"""Stands in a leaf for the length of a string that is known only at the hit."""


def fetches(clause: Clause) -> tuple[Expr, ...]:
    """The distinct leaves of a clause in the order of first use, spans aside.

    Leaves are `Arg`, `Retval`, `UStack`, every `Builtin` but `probe` and `func` (constants of the variant; `elapsed` is
    a leaf `nsecs`, `username` a leaf `uid`, `usym` needs a leaf `pid`), and `Str` and `Load` whose address
    `is_fetchable`.
    """
    known = _found.get(id(clause))
    if known is not None and known[0] is clause:
        return known[1]
    found: dict[Expr, Expr] = {}
    if clause.predicate is not None:
        _collect(clause.predicate, found)
    for statement in clause.body:
        _collect(statement, found)
    if len(_found) >= _MOST_KEPT:
        _found.clear()
    leaves = tuple(found.values())
    _found[id(clause)] = clause, leaves
    return leaves


_MOST_KEPT = 64
_found: dict[int, tuple[Clause, tuple[Expr, ...]]] = {}
"""What `fetches` said, since it is asked for every place of a clause: by the identity of the clause, which stays alive
here.
"""


def is_fetchable(address: Expr) -> bool:
    """Whether an address can be read as part of the hit: an argument or the return value, a fetchable `Load`, or one of
    these plus a constant. Everything else needs the process's memory at a computed address.
    """
    return split_address(address) is not None


def split_address(address: Expr) -> tuple[Expr, int] | None:
    """A fetchable address as its base (`Arg`, `Retval` or a fetchable `Load` of 64 bits) and the constant added to it.

    The constant is signed; casts between 64-bit integers change nothing in an address and are looked through. None
    where the address is not fetchable.
    """
    match address:
        case Arg() | Retval():
            return address, 0
        case Load(type=IntType(bits=64)) if is_fetchable(address.address):
            return address, 0
        case Cast(type=IntType(bits=64), operand=Expr(type=IntType(bits=64)) as operand):
            return split_address(operand)
        case Binary(op="+" | "-" as op, type=IntType(bits=64)):
            return _split_sum(op, address.left, address.right)
        case _:
            return None


def leaf_of(expr: Expr) -> Expr | None:
    """The leaf that an expression is read from, with spans taken out so that equal leaves compare equal; else None.
    Strings from one address whose sizes are known only at the hit have one leaf, with `ANY_SIZE` for its length.
    """
    match expr:
        case Builtin(name=name):
            if name in _CONSTANT_BUILTINS:
                return None
            if name in _READ_AS:
                return Builtin(UINT64, NOWHERE, _READ_AS[name])
            return replace(expr, span=NOWHERE)
        case Arg() | Retval() | UStack():
            return replace(expr, span=NOWHERE)
        case Str() | Load():
            if not is_fetchable(expr.address):
                return None
            leaf = replace(expr, span=NOWHERE, address=without_spans(expr.address))
            return leaf if isinstance(leaf, Load) or leaf.length is None else replace(leaf, length=ANY_SIZE)
        case _:
            return None


def told_once(expr: Str) -> Expr | None:
    """What a cut of the string is counted as, once at a hit: the expression without its place in the text. None where
    the address may be another one each time that it is evaluated: then every cut counts.
    """
    return without_spans(expr) if _is_fixed(expr.address) else None


def _is_fixed(address: Expr) -> bool:
    match address:
        case Arg() | Retval() | IntLit() | Builtin(name="pid" | "tid" | "uid" | "gid" | "cpid"):
            return True
        case Cast(operand=operand):
            return _is_fixed(operand)
        case Load() if is_fetchable(address):
            return True
        case Binary(left=left, right=right):
            return _is_fixed(left) and _is_fixed(right)
        case _:
            return False


def _split_sum(op: str, left: Expr, right: Expr) -> tuple[Expr, int] | None:
    if op == "+" and (constant := _constant(left)) is not None:
        left, right = right, left
    elif (constant := _constant(right)) is None:
        return None
    base = split_address(left)
    if base is None:
        return None
    total = base[1] + (constant if op == "+" else -constant)
    return base[0], (total + (1 << 63)) % (1 << 64) - (1 << 63)


def _constant(expr: Expr) -> int | None:
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr.value if isinstance(expr, IntLit) else None


def _collect(node: Expr | Stmt, found: dict[Expr, Expr]) -> None:
    if isinstance(node, Expr) and (leaf := leaf_of(node)) is not None:
        found.setdefault(leaf, leaf if isinstance(node, Builtin) else node)
        if isinstance(node, Str) and node.length is not None:
            _collect(node.length, found)
        return
    for child in _children(node):
        _collect(child, found)
    if isinstance(node, USym):
        found.setdefault(PID, PID)


def _children(node: Expr | Stmt) -> Iterator[Expr | Stmt]:
    for name in names(node):
        value = getattr(node, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, (Expr, Stmt)):
                yield item


def without_spans(expr: Expr) -> Expr:
    """A copy of an expression with every span taken out."""
    parts: Any = {name: _without(getattr(expr, name)) for name in names(expr)}
    return replace(expr, **parts)


def _without(part: object) -> object:
    match part:
        case Span():
            return NOWHERE
        case Expr():
            return without_spans(part)
        case tuple():
            return tuple(map(_without, part))
        case _:
            return part
