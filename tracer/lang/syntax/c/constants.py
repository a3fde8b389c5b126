"""C's constant expressions of integers, with C's types: `~0U` is 4294967295."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from tracer.dataclass import NamedTuple
from tracer.lang.syntax.c.layout import Sized
from tracer.lang.syntax.c.tokens import Cursor, Token, describe
from tracer.lang.types import IntType, memory_size, operations

_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_INTEGER = re.compile(r"(?P<digits>0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)(?P<suffix>[uUlL]*)")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27}
_MOST_NESTED = 100

INT, UINT, LONG, ULONG = (IntType(bits, signed) for bits in (32, 64) for signed in (True, False))


class Number(NamedTuple):
    """A constant and its type."""

    value: int
    type: IntType


class Constants(ABC):
    """A parser of constant expressions; what casts and sizeof name is the business of who derives from it."""

    cursor: Cursor
    enumerators: dict[str, Number]
    _nested = 0

    @abstractmethod
    def type_in_parentheses(self) -> Sized | None:
        """The type after a `(`, both parentheses taken; None, and nothing taken, where none stands there."""

    def constant(self, what: str) -> int:
        """The value of the expression that is next."""
        if self.cursor.peek().kind == "end":
            self.cursor.fail(f"expected {what}")
        return self._conditional().value

    def _conditional(self) -> Number:
        condition = self._binary(1)
        if not self.cursor.accept("?"):
            return condition
        then = self._conditional()
        self.cursor.expect(":", "between the two values of '?'")
        otherwise = self._conditional()
        return then if condition.value else otherwise

    def _binary(self, least: int) -> Number:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            self.cursor.fail("the expression is nested too deeply")
        value = self._unary()
        while True:
            token = self.cursor.peek()
            power = _PRECEDENCE.get(token.text, 0) if token.kind == "op" else 0
            if power < least or not power:
                self._nested -= 1
                return value
            self.cursor.take()
            value = self._combined(token, value, self._binary(power + 1))

    def _combined(self, token: Token, left: Number, right: Number) -> Number:
        op = token.text
        if op in ("&&", "||"):
            truth = bool(left.value) and bool(right.value) if op == "&&" else bool(left.value) or bool(right.value)
            return Number(int(truth), INT)
        type = left.type if op in ("<<", ">>") else _common(left.type, right.type)
        one, other = operations.wrap(left.value, type), right.value
        if op not in ("<<", ">>"):
            other = operations.wrap(other, type)
        if op in operations.COMPARISON:
            return Number(int(operations.COMPARISON[op](one, other)), INT)
        if op in ("/", "%") and other == 0:
            self.cursor.fail("division by zero", token)
        return Number(operations.ARITHMETIC[op](one, other, type), type)

    def _unary(self) -> Number:
        cursor = self.cursor
        token = cursor.peek()
        if token.text == "(" and token.kind == "op":
            cast = self.type_in_parentheses()
            if cast is not None:
                value = self._unary().value
                type = cast.type if isinstance(cast.type, IntType) else LONG
                return Number(operations.wrap(value, type), _promoted(type))
        cursor.take()
        if token.kind == "op" and token.text in ("-", "+", "~", "!"):
            value, type = self._unary()
            if token.text == "!":
                return Number(int(not value), INT)
            changed = -value if token.text == "-" else ~value if token.text == "~" else value
            return Number(operations.wrap(changed, type), type)
        if token.kind == "op" and token.text == "(":
            inner = self._conditional()
            cursor.expect(")", "to close '('")
            return inner
        if token.kind == "number":
            return self._literal(token)
        if token.kind == "char":
            return Number(_character(token.text), INT)
        if token.text in ("sizeof", "_Alignof", "__alignof__"):
            return self._size(token)
        if token.kind == "name" and token.text in self.enumerators:
            return self.enumerators[token.text]
        return cursor.fail(f"expected a constant, found {describe(token)}", token)

    def _size(self, word: Token) -> Number:
        named = self.type_in_parentheses() if self.cursor.next_is("(") else None
        if named is None or named.type is None or not named.align:
            self.cursor.fail(f"expected a type after {word.text}, as in {word.text}(int)", word)
        return Number(memory_size(named.type) if word.text == "sizeof" else named.align, ULONG)

    def _literal(self, token: Token) -> Number:
        match = _INTEGER.fullmatch(token.text)
        if match is None:
            self.cursor.fail(f"'{token.text}' is not an integer", token)
        digits, suffix = match["digits"], match["suffix"].lower()
        plain = digits[:2].lower() not in ("0x", "0b") and not (digits[0] == "0" and len(digits) > 1)
        try:
            value = int(digits, 10 if plain else 0 if digits[1] in "xXbB" else 8)
        except ValueError:
            self.cursor.fail(f"'{token.text}' is not a number", token)
        for type in (INT, UINT, LONG, ULONG):
            wanted = (type.bits == 64 or "l" not in suffix) and not (type.signed and "u" in suffix)
            allowed = type.signed or "u" in suffix or not plain or type == ULONG
            if wanted and allowed and operations.wrap(value, type) == value:
                return Number(value, type)
        return self.cursor.fail(f"{token.text} does not fit in 64 bits", token)


def _common(left: IntType, right: IntType) -> IntType:
    """C's usual conversions."""
    bits = max(left.bits, right.bits)
    return IntType(bits, all(side.signed for side in (left, right) if side.bits == bits))


def _promoted(type: IntType) -> IntType:
    return INT if type.bits < 32 else IntType(type.bits, type.signed)


def _character(text: str) -> int:
    body = text.lstrip("L")[1:-1]
    if not body.startswith("\\"):
        return ord(body[-1])
    if body[1] == "x":
        return int(body[2:] or "0", 16)
    return int(body[1:], 8) if body[1:].isdigit() else _ESCAPES.get(body[1], ord(body[1]))
