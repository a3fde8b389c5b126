"""C's tokens, one at a time, with the macros that have no parameters replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NoReturn

from tracer.dataclass import NamedTuple
from tracer.errors import Diagnostic, Fault, Span

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n\f\v\\]+|//[^\n]*|/\*.*?\*/)|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)
    |(?P<string>L?"(?:\\.|[^"\\\n])*")|(?P<char>L?'(?:\\.|[^'\\\n])+')
    |(?P<pragma>^[ \t]*\#[^\n]*)
    |(?P<op><<|>>|<=|>=|==|!=|&&|\|\||\.\.\.|->|.)""",
    re.X | re.S | re.M,
)
_MOST_NESTED = 64


class Token(NamedTuple):
    """`kind`: name, number, string, char, op, pragma, end. Of what a macro became the place is the macro's."""

    kind: str
    text: str
    start: int
    end: int


class Cursor:
    """Reads tokens from a place of a text on, with one token of look-ahead."""

    def __init__(self, text: str, position: int, macros: Mapping[str, str]) -> None:
        self.macros, self.text = macros, text
        self.end = position
        self._tokens = self._replaced(_raw(text, position), frozenset())
        self._length = len(text)
        self._ahead: list[Token] = []

    def _replaced(self, tokens: Iterator[Token], inside: frozenset[str], at: Token | None = None) -> Iterator[Token]:
        for token in tokens:
            if at is not None:
                token = Token(token.kind, token.text, at.start, at.end)
            body = self.macros.get(token.text) if token.kind == "name" and token.text not in inside else None
            if body is None or len(inside) > _MOST_NESTED:
                yield token
            else:
                yield from self._replaced(_raw(body, 0), inside | {token.text}, token)

    def peek(self) -> Token:
        """The next token, which stays next."""
        return self._coming(0)

    def second(self) -> Token:
        """The token after the next one."""
        return self._coming(1)

    def _coming(self, index: int) -> Token:
        while len(self._ahead) <= index:
            self._ahead.append(next(self._tokens, Token("end", "", self._length, self._length)))
        return self._ahead[index]

    def take(self) -> Token:
        """The next token."""
        token = self.peek()
        del self._ahead[0]
        self.end = token.end
        return token

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these words or operators."""
        token = self.peek()
        return token.text in texts and token.kind in ("op", "name")

    def accept(self, *texts: str) -> bool:
        """Takes the next token if it is one of these."""
        found = self.at(*texts)
        if found:
            self.take()
        return found

    def expect(self, text: str, where: str) -> Token:
        """The next token, which has to be this one."""
        if not self.at(text):
            self.fail(f"expected '{text}' {where}, found {describe(self.peek())}")
        return self.take()

    def skip(self, opening: str, closing: str) -> None:
        """Goes on behind the bracket that closes the one that is next."""
        depth = 0
        while self.peek().kind != "end":
            token = self.take()
            depth += (token.text == opening) - (token.text == closing)
            if depth == 0:
                return

    def fail(self, message: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        """Raises a fault at a token, the next one without any."""
        at = token or self.peek()
        raise Fault(Diagnostic(message, Span(at.start, at.end), hint))


def describe(token: Token) -> str:
    """The token's name in messages."""
    return "the end of the program" if token.kind == "end" else f"'{token.text}'"


def _raw(text: str, position: int) -> Iterator[Token]:
    for found in _TOKEN.finditer(text, position):
        kind = found.lastgroup
        if kind != "blank":
            yield Token(str(kind), found.group(), found.start(), found.end())
