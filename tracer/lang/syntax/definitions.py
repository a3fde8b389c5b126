"""The parsers of what stands before the clauses: the settings of `config`, declared maps, macros, functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from tracer.errors import Span
from tracer.lang.syntax import ast
from tracer.lang.syntax.lexer import Token
from tracer.lang.syntax.statements import StatementParser

_Parameter = TypeVar("_Parameter", ast.Var, ast.Var | ast.MapRef | ast.Name)

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
    start, name = _named(parser, "macro", "write macro name($variable, @map, expression) { … }")
    params = tuple(_parameters(parser, "macro", _parameter))
    end = parser.lexer.take().span
    outside, parser.named = parser.named, parser.named | {param.name for param in params}
    try:
        body = parser.body("the parameters of the macro")
    finally:
        parser.named = outside
    return ast.Macro(name, params, body, start.to(end))


def defined_words(text: str) -> Iterator[tuple[str, bool]]:
    """The names of the macros and functions of a program, which may be called before they are defined; whether each
    has no parameters.
    """
    plain = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', "", text, flags=re.S)
    return ((match[1], bool(match[2])) for match in re.finditer(r"\b(?:macro|fn)\s+(\w+)\s*\(\s*(\))?", plain))


def function(parser: StatementParser) -> ast.FunctionDefinition:
    """`fn name($a: type, …): result { … }`."""
    hint = "write fn name($a: int64): int64 { … }"
    start, name = _named(parser, "fn", hint)
    params, types = [], []
    for param in _parameters(parser, "function", lambda parser, token: _variable(parser, token, hint)):
        parser.expect(":", f"after {param.name}", hint)
        params.append(param)
        types.append(parser.type_name())
    parser.lexer.take()
    parser.expect(":", f"after the parameters of {name}", "a function has a result: write : int64, or : void")
    result = parser.type_name()
    body = parser.body("the result of the function")
    return ast.FunctionDefinition(name, tuple(params), tuple(types), result, body, start.to(result.span))


def _named(parser: StatementParser, what: str, hint: str) -> tuple[Span, str]:
    """The start of a definition and the name that it gives, up to its opening parenthesis."""
    keyword, name = parser.lexer.take(), parser.lexer.take()
    if name.kind != "name":
        parser.fail(f"expected a name after {what}, found {name.describe()}", name.span, hint)
    parser.expect("(", f"after {what} {name.text}")
    return keyword.span, name.text


def _parameters(
    parser: StatementParser, what: str, one: Callable[[StatementParser, Token], _Parameter]
) -> Iterator[_Parameter]:
    """The parameters up to the closing parenthesis."""
    seen: set[str] = set()
    while not parser.next_is(")"):
        param = one(parser, parser.lexer.take())
        if param.name in seen:
            parser.fail(f"the {what} has two parameters {param.name}", param.span)
        seen.add(param.name)
        yield param
        if not parser.accept(",") and not parser.next_is(")"):
            token = parser.lexer.peek()
            parser.fail(f"expected ',' or ')' after {param.name}, found {token.describe()}", token.span)


def _variable(parser: StatementParser, token: Token, hint: str) -> ast.Var:
    if token.kind != "var":
        parser.fail(f"expected a parameter of the function, found {token.describe()}", token.span, hint)
    return ast.Var(token.span, token.text)


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
    while not parser.next_is("}"):
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
        if not parser.accept(";") and not parser.next_is("}"):
            token = parser.lexer.peek()
            parser.fail(f"expected ';' after the setting, found {token.describe()}", token.span)
    parser.lexer.take()
    return settings
