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

    def _replaced(self, tokens: Iterator[Token], inside: frozenset[str], name: Token | None = None) -> Iterator[Token]:
        for token in tokens:
            if name is not None:
                token = Token(token.kind, token.text, name.start, name.end)
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

    def next_is(self, *texts: str) -> bool:
        """Whether the next token is one of these words or operators."""
        token = self.peek()
        return token.text in texts and token.kind in ("op", "name")

    def accept(self, *texts: str) -> bool:
        """Takes the next token if it is one of these."""
        matches = self.next_is(*texts)
        if matches:
            self.take()
        return matches

    def expect(self, text: str, where: str) -> Token:
        """The next token, which has to be this one."""
        if not self.next_is(text):
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
        place = token or self.peek()
        raise Fault(Diagnostic(message, Span(place.start, place.end), hint))


def describe(token: Token) -> str:
    """The token's name in messages."""
    return "the end of the program" if token.kind == "end" else f"'{token.text}'"


def _raw(text: str, position: int) -> Iterator[Token]:
    for match in _TOKEN.finditer(text, position):
        kind = match.lastgroup
        if kind != "blank":
            yield Token(str(kind), match.group(), match.start(), match.end())
