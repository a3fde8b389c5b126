"""Walking trees: one traversal of syntax trees and typed programs for every question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import is_
from typing import Any, TypeVar

from tracer.dataclass import names, replace
from tracer.errors import Source, Span
from tracer.lang.syntax import ast
from tracer.lang.typed import Aggregate, Clause, Expr, MapAdd, Stmt

Node = Expr | Stmt
AnyNode = TypeVar("AnyNode", Node, ast.Expr | ast.Stmt)
Kept = TypeVar("Kept", Expr, Stmt, ast.Expr, ast.Stmt)

_NODES = (Expr, Stmt, ast.Expr, ast.Stmt, ast.TypeName)
_PLAIN = {"Span", "Type", "int", "str", "bool", "bytes", "int | None", "str | None"}
"""The annotations of fields that hold no nodes."""
_known_fields: dict[type, tuple[str, ...]] = {}


def _fields(node: object) -> tuple[str, ...]:
    """The fields of a node that can hold others. To look into the rest was most of what a walk took."""
    kind = node.__class__
    if kind in _known_fields:
        return _known_fields[kind]
    said = {name: text for base in kind.__mro__ for name, text in vars(base).get("__annotations__", {}).items()}
    _known_fields[kind] = tuple([name for name in names(kind) if said[name] not in _PLAIN])
    return _known_fields[kind]


def children(node: AnyNode) -> Iterator[AnyNode]:
    """The nodes right below a node, in the order of the text."""
    for name in _fields(node):
        value: Any = getattr(node, name)
        if isinstance(value, _NODES):
            yield value  # type: ignore[misc]
        elif isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, _NODES))  # type: ignore[misc]


def walk(node: AnyNode) -> Iterator[AnyNode]:
    """The node and everything below it, parents first, in the order of the text."""
    pending: list[Any] = [node]
    while pending:
        current: Any = pending.pop()
        yield current
        pending += [*children(current)][::-1]


def walk_program(program: ast.Program) -> Iterator[ast.Expr | ast.Stmt]:
    """Every node of a syntax tree."""
    for clause in program.clauses:
        for node in (clause.by, clause.predicate, *clause.body):
            if node is not None:
                yield from walk(node)


def rewrite(node: Kept, change: Callable[[Any], Any]) -> Kept:
    """The tree with `change` applied to each node, children first; parts that stay are the same objects."""
    return change(below(node, lambda child: rewrite(child, change)))  # type: ignore[no-any-return]


def below(node: Kept, change: Callable[[Any], Any]) -> Kept:
    """The node with `change` applied to each right below it; the same object where nothing changes."""
    changes: dict[str, Any] = {}
    for name in _fields(node):
        value: Any = getattr(node, name)
        if isinstance(value, _NODES):
            new: Any = change(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], _NODES):
            new = tuple([change(item) for item in value])
            new = value if all(map(is_, new, value)) else new
        else:
            continue
        if new is not value:
            changes[name] = new
    return replace(node, **changes) if changes else node


def walk_clause(clause: Clause) -> Iterator[Node]:
    """Every node of a clause, the predicate first."""
    if clause.predicate is not None:
        yield from walk(clause.predicate)
    for statement in clause.body:
        yield from walk(statement)


def attach_points(clause: Clause, source: Source) -> Span:
    """The span of the attach points of a clause: its text up to the predicate or the body."""
    first = clause.predicate or next(iter(clause.body), None)
    end = first.span.start if first is not None else clause.span.end
    text = source.text[clause.span.start : end].rstrip("/{(! \t\n")
    return Span(clause.span.start, clause.span.start + len(text)) if text else clause.span


def added_to(clause: Clause) -> Iterator[str]:
    """The maps that a clause aggregates or adds to, as often as it does."""
    return (node.map for node in walk_clause(clause) if isinstance(node, (Aggregate, MapAdd)))
