"""The filter of a kernel's event (Documentation/trace/events.rst, 5), as a condition of our language.

`a == 1 && (s ~ "x*" || !(b & 4))`: comparisons of a field with a constant, in the type of the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tracer.dataclass import dataclass
from tracer.errors import ProgramError
from tracer.foreign.line import Line
from tracer.foreign.model import Type
from tracer.foreign.texts import string

_TOKEN = re.compile(
    r"\s*(?:(?P<string>\"[^\"]*\"|'[^']*')|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>-?(?:0[xX][0-9a-fA-F]+|[0-9]+))(?!\w)"
    r"|(?P<sign>&&|\|\||==|!=|<=|>=|!|<|>|&|~|\(|\)))",
    re.A,
)
_COMPARISONS = ("==", "!=", "<=", ">=", "<", ">", "&")
_LONGEST = 255
_DEEPEST = 30


@dataclass(frozen=True, slots=True)
class Field:
    """The field that a name of a filter stands for: an expression of ours, of a type."""

    text: str
    type: Type


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def condition(text: str, fields: Mapping[str, Field]) -> str:
    """The condition. Raises `ProgramError` under the filter's text."""
    return _Filter(text, fields).whole()


class _Filter:
    def __init__(self, text: str, fields: Mapping[str, Field]) -> None:
        self._line, self._fields = Line(text, "filter"), fields
        self._tokens = list(self._read(text))
        self._position = 0

    def whole(self) -> str:
        if self._peek().kind == "end":
            raise self._fail("the filter is empty", self._peek(), "gctype == 1 is one")
        text = self._either(0)
        if self._peek().kind != "end":
            raise self._fail(f"'{self._peek().text}' stands where && or || was expected", self._peek())
        return text

    def _read(self, text: str) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                begin = position + len(text[position:]) - len(text[position:].lstrip())
                raise self._line.fail(f"'{text[begin]}' means nothing in a filter", begin, begin + 1)
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match[kind], match.start(kind), match.end(kind)))
            position = match.end()
        return [*tokens, _Token("end", "", len(text), len(text))]

    def _peek(self) -> _Token:
        return self._tokens[self._position]

    def _take(self) -> _Token:
        token = self._tokens[self._position]
        self._position += token.kind != "end"
        return token

    def _fail(self, message: str, token: _Token, hint: str | None = None) -> ProgramError:
        return self._line.fail(message, token.start, token.end, hint)

    def _either(self, depth: int) -> str:
        parts = [self._both(depth)]
        while self._peek().text == "||":
            self._take()
            parts.append(self._both(depth))
        return " || ".join(parts)

    def _both(self, depth: int) -> str:
        parts = [self._one(depth)]
        while self._peek().text == "&&":
            self._take()
            parts.append(self._one(depth))
        return " && ".join(parts)

    def _one(self, depth: int) -> str:
        token = self._take()
        if depth > _DEEPEST:
            raise self._fail("too many brackets inside each other", token)
        if token.kind == "sign" and token.text == "!":
            return f"!({self._one(depth + 1)})"
        if token.kind == "sign" and token.text == "(":
            inner = self._either(depth + 1)
            closing = self._take()
            if closing.text != ")":
                raise self._fail("a closing bracket is missing", closing)
            return f"({inner})"
        if token.kind != "word":
            what = f"'{token.text}'" if token.text else "the end"
            raise self._fail(f"{what} stands where the name of a field was expected", token)
        field = self._fields.get(token.text)
        if field is None:
            raise self._fail(f"there is no field {token.text}", token, f"there are {', '.join(self._fields)}")
        if field.type.count is not None:
            raise self._fail(f"{token.text} is an array, which the kernel's filter does not compare", token)
        return self._compared(token, field)

    def _compared(self, name: _Token, field: Field) -> str:
        sign, value = self._take(), self._take()
        if field.type.is_string:
            if sign.text not in ("==", "!=", "~"):
                raise self._fail("a string is compared by ==, != or ~", sign)
            if value.kind != "string":
                raise self._fail("a string stands in quotes", value, f'{name.text} {sign.text} "text"')
            text = value.text[1:-1]
            if len(text) > _LONGEST:
                raise self._fail(f"the kernel compares {_LONGEST} bytes at most", value)
            if sign.text != "~":
                return f"{field.text} {sign.text} {string(text)}"
            if text.startswith("!") or "\\" in text or "[^" in text or text.count("[") != text.count("]"):
                raise self._fail("a pattern of *, ? and [a-z] has no other signs", value)
            return f"globmatch({field.text}, {string(text)})"
        if sign.text not in _COMPARISONS or sign.kind != "sign":
            what = f"'{sign.text}'" if sign.text else "nothing"
            hint = "==, !=, <, <=, >, >= and & do"
            raise self._fail(f"{name.text} is a number: {what} does not compare it", sign, hint)
        if value.kind != "number":
            what = "another field" if value.text in self._fields else f"'{value.text}'"
            raise self._fail(f"{name.text} is compared with a number, and {what} is none", value)
        number = self._number(value)
        bits, signed = field.type.bits, field.type.is_signed
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if sign.text == "&" and low <= number < 1 << bits:
            return f"({field.text} & {number % (1 << bits):#x}) != 0"
        if not low <= number <= high:
            remedy = None if signed else f"{name.text}=…:s{bits} makes it signed"
            raise self._fail(f"{name.text} is {low} to {high}, and never {value.text}", value, remedy)
        return f"{field.text} {sign.text} {number}"

    def _number(self, token: _Token) -> int:
        digits = token.text.removeprefix("-")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX"
        if (octal and set(digits) & set("89")) or len(digits) > 30:
            raise self._fail(f"{token.text} is no number of 64 bits", token)
        number = int(digits, 8) if octal else int(digits, 0)
        return number if digits == token.text else -number
