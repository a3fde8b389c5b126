"""The names of types: those of casts, of declared variables, and of `sizeof` and its like."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.errors import Span
from tracer.lang.syntax import ast
from tracer.lang.syntax.cursor import QUALIFIERS, TAGS, Cursor
from tracer.lang.syntax.lexer import Token

MAX_SUFFIXES = 16
"""How many pointers and arrays a type may be of."""
_OPENS_OPERAND = frozenset(("name", "int", "string", "var", "map", "param", "paramcount"))


def type_name(parser: Cursor) -> ast.TypeName:
    """`int32`, `int32 *`, `uint8[4]`, `struct sock *`, `struct ns::Cart<int> *`; several words of C (`unsigned long`)
    make one name.
    """
    _qualifiers(parser)
    first = parser.lexer.take()
    if first.kind not in ("name", "keyword"):
        parser.fail(f"expected a type, found {first.describe()}", first.span)
    if first.text == "typeof" and parser.next_is("("):
        parser.lexer.seek(first.span.start)
        return _with_suffixes(parser, _type_of(parser))
    struct = first.kind == "keyword"
    name, span = first.text, first.span
    while _qualifiers(parser).kind == "name":
        word = parser.lexer.take()
        span = span.to(word.span)
        if struct and (end := template_end(parser.source.text, span.end)):
            span = Span(span.start, end)
            parser.lexer.seek(end)
        name = f"{name} {parser.source.text[word.span.start : span.end]}"
    return _with_suffixes(parser, ast.TypeName(name, span, struct=struct))


def cast_type(parser: Cursor) -> ast.TypeName | None:
    """The type of a cast after its `(`, with the `)` taken; None, and nothing taken, where it is no cast."""
    start = parser.lexer.peek().span.start
    if parser.next_is(*TAGS):
        return _closed(parser, type_name(parser))
    word = parser.lexer.peek()
    if word.kind != "name":
        return None
    if _at_type(parser):
        return _closed(parser, type_name(parser))
    # `(word)operand`, and `(word *)`, can only be a cast whose type is misspelt.
    parser.lexer.take()
    pointers = 0
    while parser.accept("*"):
        pointers += 1
    closed = parser.accept(")")
    if closed and pointers:
        return ast.TypeName(word.text, word.span, (None,) * pointers)
    follows = parser.lexer.peek() if closed else None
    if follows and follows.kind in _OPENS_OPERAND:
        return ast.TypeName(word.text, word.span)
    parser.lexer.seek(start)
    return None


def pointer_type(parser: Cursor, start: int) -> ast.TypeName | None:
    """`name *` as a whole argument, its name taken: a pointer to a type, which may be a macro's parameter. None, and
    nothing more taken, where an operand follows.
    """
    operator = parser.lexer.peek().span.start
    while parser.accept("*"):
        pass
    closed = parser.next_is(")", ",")
    parser.lexer.seek(start if closed else operator)
    return type_name(parser) if closed else None


def _at_type(parser: Cursor) -> bool:
    """Whether the next token can only begin a type."""
    word = parser.lexer.peek()
    if word.kind != "name":
        return word.kind == "keyword" and word.text in TAGS
    if word.text == "typeof":
        return True
    parser.lexer.take()
    named = parser.at_name_of_type(word) and not parser.next_is("=")  # a field of a record may be called like a type
    if word.text.endswith("_t") and word.text not in parser.named:
        named = not parser.next_is("(")  # what is called is no type
    parser.lexer.seek(word.span.start)
    return named


def _type_of(parser: Cursor) -> ast.TypeName:
    """`typeof(type)` and `typeof(expression)`."""
    word = parser.lexer.take()
    parser.lexer.take()
    if _at_type(parser):
        type = type_name(parser)
        return replace(type, span=word.span.to(parser.expect(")", "after the type of typeof").span))
    of = parser.enclosed()
    return ast.TypeName("typeof", word.span.to(parser.expect(")", "after typeof").span), of=of)


def _closed(parser: Cursor, type: ast.TypeName) -> ast.TypeName:
    parser.expect(")", "after the type of the cast")
    return type


def _with_suffixes(parser: Cursor, type: ast.TypeName) -> ast.TypeName:
    suffixes, span = list(type.suffixes), type.span
    while parser.next_is("*", "["):
        opening = parser.lexer.take()
        if opening.text == "*":
            suffixes.append(None)
            _qualifiers(parser)
        else:
            suffixes.append(_count(parser))
            opening = parser.expect("]", "after the size of the array")
        span = span.to(opening.span)
        if len(suffixes) > MAX_SUFFIXES:
            parser.fail("the type is nested too deeply", span, f"at most {MAX_SUFFIXES} pointers and arrays")
    return replace(type, span=span, suffixes=tuple(suffixes))


def template_end(text: str, start: int) -> int:
    """The end of a template's arguments that begin there, 0 where none do."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"<": 1, ">": -1}.get(text[position], 0)
        if depth <= 0 or text[position] in ";{}":
            return position + 1 if text[position] == ">" and depth == 0 else 0
    return 0


def _qualifiers(parser: Cursor) -> Token:
    """The next token behind `const` and its like, which change no value."""
    while (token := parser.lexer.peek()).kind == "name" and token.text in QUALIFIERS:
        parser.lexer.take()
    return token


def _count(parser: Cursor) -> int:
    """The size of an array, 0 where none is given."""
    token = parser.lexer.peek()
    if token.text in parser.defines:
        parser.lexer.take()
        literal = parser.defined(token)
        if isinstance(literal, ast.IntLit):
            return literal.value
        parser.fail(f"the size of an array must be a number, and {token.text} is none", token.span)
    return int(parser.lexer.take().value) if token.kind == "int" else 0
