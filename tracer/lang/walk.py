"""Walking the typed tree: one generic traversal instead of one per question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.dataclass import names
from tracer.errors import Source, Span
from tracer.lang.typed import Aggregate, Clause, Expr, MapAdd, Stmt

if TYPE_CHECKING:
    from tracer.plan.model import Plan

Node = Expr | Stmt


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first, in the order of the text."""
    yield node
    for name in names(node):
        value = getattr(node, name)
        if isinstance(value, (Expr, Stmt)):
            yield from walk(value)
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, (Expr, Stmt)):
                    yield from walk(item)


def walk_clause(clause: Clause) -> Iterator[Node]:
    """Every node of a clause, the predicate first."""
    if clause.predicate is not None:
        yield from walk(clause.predicate)
    for statement in clause.body:
        yield from walk(statement)


def attach_points(clause: Clause, source: Source) -> Span:
    """Where the attach points of a clause stand: its text up to the predicate or the body."""
    first = clause.predicate or next(iter(clause.body), None)
    end = first.span.start if first is not None else clause.span.end
    text = source.text[clause.span.start : end].rstrip("/{(! \t\n")
    return Span(clause.span.start, clause.span.start + len(text)) if text else clause.span


def has_return_probes(plan: Plan) -> bool:
    """Whether any site replaces a return address."""
    return any(site.kind == "uretprobe" for site in plan.sites)


def added_to(clause: Clause) -> Iterator[str]:
    """The maps that a clause aggregates or adds to, as often as it does."""
    return (node.map for node in walk_clause(clause) if isinstance(node, (Aggregate, MapAdd)))
