"""Maps that are read and that no clause assigns: they read as 0, as in bpftrace, with a warning."""

from __future__ import annotations

from typing import Any

from tracer.dataclass import names, replace
from tracer.errors import Diagnostic
from tracer.lang import suggest
from tracer.lang.builtins.registry import FUNCTIONS
from tracer.lang.syntax import ast
from tracer.lang.walk import rewrite, walk_program

_TAKE_MAPS = ("map", "map or value", "map or shown", "element")


def read_as_zero(program: ast.Program) -> tuple[ast.Program, tuple[Diagnostic, ...]]:
    """The program with 0 for such maps, and what there is to say. A map stays where a function takes it whole, or where
    its name is near that of another, and so is likely to be misspelt: the checker refuses it.
    """
    nodes = list(walk_program(program))
    targets = [node.target for node in nodes if isinstance(node, (ast.Assign, ast.IncDec))]
    assigned = {target.name for target in targets if isinstance(target, ast.MapRef)}
    unknown = {
        node.name
        for node in nodes
        if isinstance(node, ast.MapRef) and node.name not in assigned and suggest.nearest(node.name, assigned) is None
    }
    if not unknown:
        return program, ()
    said: dict[Diagnostic, None] = {}

    def zero(node: Any) -> Any:
        if not isinstance(node, ast.MapRef) or node.name not in unknown:
            return node
        said[Diagnostic(f"no clause assigns {node.name}: it reads as 0", node.name_span, None, "warning")] = None
        return ast.IntLit(node.span, 0)

    def change(node: Any) -> Any:
        kept = _kept(node)
        changes: dict[str, Any] = {}
        for name in names(node):
            value = getattr(node, name)
            if isinstance(value, tuple):
                parts = [part if (name, place) in kept else zero(part) for place, part in enumerate(value)]
                changes[name] = tuple(parts)
            elif (name, 0) not in kept:
                changes[name] = zero(value)
        return replace(node, **{name: new for name, new in changes.items() if new is not getattr(node, name)})

    clauses = []
    for clause in program.clauses:
        predicate = None if clause.predicate is None else zero(rewrite(clause.predicate, change))
        body = tuple([rewrite(statement, change) for statement in clause.body])
        clauses.append(replace(clause, predicate=predicate, body=body))
    return replace(program, clauses=tuple(clauses)), tuple(said)


def _kept(node: Any) -> set[tuple[str, int]]:
    """The places at which a node takes a map and no value: names of its fields, and positions in them."""
    if isinstance(node, ast.Call):
        function = FUNCTIONS.get(node.name)
        if function is None or not function.args:
            return {("args", place) for place in range(len(node.args))}
        kinds = [argument.kind for argument in function.args]
        wanted = [kinds[min(place, len(kinds) - 1)] for place in range(len(node.args))]
        return {("args", place) for place, kind in enumerate(wanted) if kind in _TAKE_MAPS}
    return {("target", 0), ("map", 0)}
