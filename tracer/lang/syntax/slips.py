"""Hints for those who come from other languages: how what they wrote is written here."""

from __future__ import annotations

import re

from tracer.lang.foreign import words
from tracer.lang.syntax import ast

WORDS = {
    **dict.fromkeys(("elif", "elsif", "elseif"), "write else if (…) { … }"),
    **dict.fromkeys(("switch", "case"), "write if (…) { … } else if (…) { … }"),
    **dict.fromkeys(("do", "until", "loop"), "write while (…) { … }"),
    **dict.fromkeys(("foreach", "each"), "write for ($kv : @map) { … } or for ($i : 0..10) { … }"),
    **dict.fromkeys(("function", "def", "func", "sub"), "write macro name($variable, @map, expression) { … }"),
    **dict.fromkeys(("var", "my", "local", "auto"), "write let $x = 1; or $x = 1;"),
    **dict.fromkeys(("then", "begin", "end"), "blocks stand in braces"),
    "goto": "there are while, for, break, continue and return",
    "and": "write && between conditions",
    "or": "write || between conditions",
    "not": "write ! before a condition",
    "mod": "write %",
    "delete": "write delete(@x, key);",
    "global": "maps need no declaration: write @x = …;",
}
OPERATORS = {
    "<<<": "write @x = count(); or sum(n), avg(n), min(n), max(n), hist(n)",
    "===": "write == to compare",
    "!==": "write != to compare",
    "<>": "write != to compare",
    "=<": "write <=",
    "=>": "write = to assign, >= to compare",
    ":=": "write = to assign, which is a statement of its own",
    "**": "there is no power: multiply, or shift (1 << n)",
}
_QUOTES = 'texts stand in plain double quotes: "text"'
CHARACTERS = {
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019\u201a\uff02`", _QUOTES),
    **dict.fromkeys("\uff08\uff09", "write ( and )"),
    **dict.fromkeys("\u2013\u2014\u2212", "write - for a minus"),
    **dict.fromkeys("\u00a0\u2007\u202f\u3000\u200b\ufeff", "it looks like a blank, but is another character"),
    "\uff1b": "write ;",
    "\uff0c": "write ,",
    "\u00d7": "write *",
    "\u2264": "write <=",
    "\u2265": "write >=",
    "\u2260": "write !=",
    "\\": "a statement needs no \\ to go on in the next line",
    "#": "comments begin with //; #define and #include stand at the beginning of a line",
}
"""Characters that no token begins with."""

_OPERAND = ("int", "string", "var", "map", "param")


def hint_at(text: str, offset: int) -> str | None:
    """The hint for what stands in `text` at an offset, or around it where it is an operator."""
    if (foreign := words.hint_at(text, offset)) is not None:
        return foreign
    if match := re.compile(r"[a-z]+").match(text, offset):
        return WORDS.get(match.group())
    for written, hint in OPERATORS.items():
        for start in range(max(offset - len(written) + 1, 0), offset + 1):
            if text.startswith(written, start):
                return hint
    return None


def hint_after(statement: ast.Stmt, kind: str) -> str | None:
    """The hint for a statement that does not end where it could; `kind` is that of the token there."""
    expr = statement.expr if isinstance(statement, ast.ExprStmt) else None
    if isinstance(expr, ast.Call):
        return WORDS.get(expr.name)
    if isinstance(expr, ast.MapRef) and expr.name == "@" and kind == "name":
        return "the name of a map follows its @ at once"
    if isinstance(expr, ast.TypeExpr) and kind in ("name", "var"):
        return "write let $x: int32 = 1; or $x = 1;"
    if isinstance(expr, ast.Name):
        if expr.name in WORDS:
            return WORDS[expr.name]
        if kind in _OPERAND:
            return f"a function takes its arguments in parentheses: {expr.name}(…);"
    return None


def hint_for_target(target: ast.Expr) -> str | None:
    """The hint for what cannot be assigned to."""
    if isinstance(target, ast.Name):
        return f"write ${target.name} for a variable, @{target.name} for a map"
    if isinstance(target, ast.Binary) and isinstance(target.left, (ast.Var, ast.MapRef)):
        return "names are made of letters, digits and _"
    if isinstance(target, ast.TypeExpr) and " " in target.type.name:
        return f"write let ${target.type.name.rsplit(' ', 1)[1]} = …;"
    if isinstance(target, ast.Field) and isinstance(target.operand, ast.Name):
        name = {"self": f"@{target.name}[tid]", "this": f"${target.name}"}.get(target.operand.name)
        if name is not None:
            return f"{target.operand.name}->{target.name} of DTrace is {name} here"
    if isinstance(target, (ast.Field, ast.Index)):
        return "assign the whole value; nothing is written into the traced program"
    return None
