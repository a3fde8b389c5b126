"""What may stand before the clauses: the settings of `config`, declared maps, macros."""

from __future__ import annotations

from tracer.lang.syntax import ast
from tracer.lang.syntax.lexer import Token
from tracer.lang.syntax.statements import StatementParser

MOST_KEYS = 1 << 24
"""How many keys a declared map may have."""


def map_declaration(parser: StatementParser) -> ast.MapDeclaration:
    """`let @name = hash(100);`."""
    keyword, map = parser.lexer.take(), parser.lexer.take()
    if map.kind != "map":
        parser.fail(f"expected a map, found {map.describe()}", map.span, "write let @name = hash(100);")
    parser.expect("=", f"after {map.text}")
    kind = parser.lexer.take()
    parser.expect("(", f"after {kind.text}")
    most = parser.lexer.take()
    if most.kind != "int" or not 1 <= int(most.value) <= MOST_KEYS:
        parser.fail(f"the number of keys must be from 1 to {MOST_KEYS}, not {most.text}", most.span)
    end = parser.expect(")", "after the number of keys").span
    parser.expect(";", "after the declaration")
    return ast.MapDeclaration(map.text, kind.text, int(most.value), keyword.span.to(end))


def macro(parser: StatementParser) -> ast.Macro:
    """`macro name($variable, @map, expression) { … }`."""
    keyword, name = parser.lexer.take(), parser.lexer.take()
    if name.kind != "name":
        what = f"expected the name of the macro, found {name.describe()}"
        parser.fail(what, name.span, "write macro name($variable, @map, expression) { … }")
    parser.expect("(", f"after macro {name.text}")
    params: list[ast.Var | ast.MapRef | ast.Name] = []
    while not parser.at(")"):
        param = _parameter(parser, parser.lexer.take())
        if any(param.name == other.name for other in params):
            parser.fail(f"the macro has two parameters {param.name}", param.span)
        params.append(param)
        if not parser.accept(",") and not parser.at(")"):
            found = parser.lexer.peek()
            parser.fail(f"expected ',' or ')' after {param.name}, found {found.describe()}", found.span)
    end = parser.lexer.take().span
    body = parser.body("the parameters of the macro")
    return ast.Macro(name.text, tuple(params), body, keyword.span.to(end))


def _parameter(parser: StatementParser, token: Token) -> ast.Var | ast.MapRef | ast.Name:
    if token.kind == "var":
        return ast.Var(token.span, token.text)
    if token.kind == "map":
        return ast.MapRef(token.span, token.text, (), token.span)
    if token.kind != "name":
        what = f"expected a parameter of the macro, found {token.describe()}"
        parser.fail(what, token.span, "it is $name for a variable, @name for a map, name for any expression")
    return ast.Name(token.span, token.text)


def config(parser: StatementParser) -> list[ast.Setting]:
    """`config = { NAME = VALUE; … }`."""
    parser.lexer.take()
    parser.expect("=", "after config")
    parser.expect("{", "after 'config ='")
    settings: list[ast.Setting] = []
    while not parser.at("}"):
        name = parser.lexer.take()
        if name.kind not in ("name", "keyword"):
            parser.fail(f"expected the name of a setting, found {name.describe()}", name.span)
        parser.expect("=", f"after {name.text}")
        value = parser.lexer.take()
        if value.kind not in ("name", "keyword", "int", "string"):
            parser.fail(f"expected the value of {name.text}, found {value.describe()}", value.span)
        text = value.value.decode("utf-8", "replace") if isinstance(value.value, bytes) else value.text
        if value.kind == "int":
            text = str(value.value)
        settings.append(ast.Setting(name.text, text, name.span.to(value.span), value.span))
        if not parser.accept(";") and not parser.at("}"):
            found = parser.lexer.peek()
            parser.fail(f"expected ';' after the setting, found {found.describe()}", found.span)
    parser.lexer.take()
    return settings
