"""Names that mean one thing."""

from __future__ import annotations

import ast
from pathlib import Path

MODULES = list((Path(__file__).parents[2] / "tracer").rglob("*.py"))
SAY_NOTHING = frozenset(("each", "found", "at", "own", "known", "made"))
"""Words that would fit any variable. `left` too is one, but where it stands beside `right`."""


def bound(scope: ast.AST) -> set[str]:
    """The variables and parameters that are bound in a function or a module."""
    variables = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return variables | {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}


def test_no_variable_has_a_name_that_says_nothing() -> None:
    vague: dict[str, set[str]] = {}
    for path in MODULES:
        tree = ast.parse(path.read_text("utf-8"))
        names = bound(tree) & SAY_NOTHING
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef) and "left" in (names_of := bound(scope)) and "right" not in names_of:
                names.add("left")
        if names:
            vague[str(path)] = names
    assert vague == {}
