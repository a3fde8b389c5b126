"""Nodes as text: a line for each statement, its blocks below it, expressions fully bracketed.

A form says how a node looks, by the names of its fields. The syntax tree and the typed program share the forms of nodes
that both have. A node without a form shows its expressions behind its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from tracer.dataclass import names
from tracer.lang import typed
from tracer.lang.syntax import ast

INDENT = "  "

Form = str | Callable[[Any], str]

_FORMS: dict[str, Form] = {
    "IntLit": "{value}", "BoolLit": "{value}", "StrLit": "{value}",
    "Unary": "({op}{operand})", "Binary": "({left} {op} {right})",
    "Ternary": "({condition} ? {then} : {otherwise})", "Call": "{name}({args})",
    "ExprStmt": "{expr}", "If": "if {condition}", "While": "while {condition}",
}  # fmt: skip
_STATEMENTS = (ast.Stmt, typed.Stmt)
_EXPRESSIONS = (ast.Expr, typed.Expr)


def quoted(value: bytes) -> str:
    """A string constant on one line."""
    shown = repr(value.decode("utf-8", "backslashreplace"))
    body = shown[1:-1]
    if shown[0] == "'":
        body = body.replace('"', '\\"').replace("\\'", "'")
    return f'"{body}"'


class Tree:
    """Prints the nodes of one tree. `forms` adds to those of both; `end` is what stands behind an expression, `before`
    gives the lines before a statement, as deep as it is.
    """

    def __init__(
        self, forms: Mapping[str, Form], end: Callable[[Any], str] = lambda node: "",
        before: Callable[[Any, int], Iterable[str]] = lambda node, depth: (),
    ) -> None:  # fmt: skip
        self.forms = {**_FORMS, **forms}
        self.end = end
        self.before = before

    def body(self, statements: Iterable[Any], depth: int) -> Iterator[str]:
        """The lines of statements."""
        for node in statements:
            yield from self.before(node, depth)
            yield INDENT * depth + self._form(node)
            for field in names(node):
                inner = getattr(node, field)
                if isinstance(inner, tuple) and inner and isinstance(inner[0], _STATEMENTS):
                    if field == "otherwise":
                        yield f"{INDENT * depth}else"
                    yield from self.body(inner, depth + 1)

    def text(self, value: Any) -> str:
        """The text of a field's value."""
        match value:
            case bool():
                return "true" if value else "false"
            case bytes():
                return quoted(value)
            case tuple():
                return ", ".join(map(self.text, value))
            case ast.TypeName():
                return self._type(value)
            case ast.Expr() | typed.Expr():
                return self._form(value) + self.end(value)
        return "" if value is None else str(value)

    def _form(self, node: Any) -> str:
        form = self.forms.get(type(node).__name__)
        if callable(form):
            return form(node)
        if form is not None:
            fields = [field for field in names(node) if f"{{{field}}}" in form]
            return form.format(**{field: self.text(getattr(node, field)) for field in fields})
        expressions = [value for value in map(partial(getattr, node), names(node)) if isinstance(value, _EXPRESSIONS)]
        name, shown = type(node).__name__.lower(), self.text(tuple(expressions))
        return f"{name}({shown})" if isinstance(node, _EXPRESSIONS) else f"{name} {shown}".rstrip()

    def _type(self, node: ast.TypeName) -> str:
        suffixes = "".join("*" if count is None else f"[{count or ''}]" for count in node.suffixes)
        name = node.name if node.of is None else f"typeof({self.text(node.of)})"
        return f"{name}{' ' if suffixes.startswith('*') else ''}{suffixes}"
