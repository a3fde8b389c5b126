"""Text into tokens, one at a time.

The parser asks for tokens only inside predicates, bodies and `config`: attach points have a lexical grammar of their
own (a path holds slashes, dots and dashes) and are read from the bare text by `attach`. So the lexer is a cursor, not
a list.
"""

from __future__ import annotations

import re

from tracer.dataclass import NamedTuple
from tracer.errors import Diagnostic, Fault, Source, Span
from tracer.kinds.model import DURATIONS_NS

_words = str.split

KEYWORDS = frozenset(
    _words(
        "break config continue else for if let return unroll while true false "
        "import macro struct union enum comptime fn"
    )
)

OPERATORS = _words(
    "<<= >>= ... ++ -- -> == != <= >= && || << >> += -= *= /= %= &= |= ^= .. "
    "+ - * / % & | ^ ~ ! < > = ? : ; , . ( ) [ ] { }"
)

# Compiling an expression takes longer than reading a short program with it: there are two.
_BLANK = re.compile(r"\s*", re.A)
_WORD = re.compile(r"\w*", re.A)
_DECIMAL = (  # compiled where a program has one, as what follows
    r"(?P<digits>[0-9](?:_*[0-9])*)(?:(?P<exponent>[eE][0-9]{1,4})?(?P<suffix>[uUlL]{0,3})|(?P<duration>ns|us|ms|[smhd]))"
)
_HEX = r"0[xX](?P<digits>[0-9a-fA-F](?:_*[0-9a-fA-F])*)(?P<suffix>[uUlL]{0,3})"
_OCTAL_ESCAPE = r"[0-7]{1,3}"
_HEX_ESCAPE = r"[0-9a-fA-F]{1,2}"
_SIMPLE_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", '"': b'"', "\\": b"\\"}

MAX_UINT64 = (1 << 64) - 1


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return start if match is None else match.end()


class Token(NamedTuple):
    """`kind` is "name", "keyword", "int", "string", "var", "map", "param" ($1), "paramcount" ($#), "op" or "end".

    `value` is the number of an int or a param, the bytes of a string.
    """

    kind: str
    text: str
    span: Span
    value: int | bytes = 0

    def describe(self) -> str:
        """The token's name in messages."""
        return "the end of the program" if self.kind == "end" else f"'{self.text}'"


class Lexer:
    """A cursor over the text with one token of look-ahead."""

    def __init__(self, source: Source) -> None:
        self.text = source.text
        self.position = 0
        self._ahead: Token | None = None
        if self.text.startswith("#!"):
            self.position = (self.text + "\n").index("\n")

    def peek(self) -> Token:
        """The next token, which stays next."""
        if self._ahead is None:
            self._ahead = self._read()
        return self._ahead

    def take(self) -> Token:
        """The next token."""
        token = self.peek()
        self._ahead = None
        return token

    def seek(self, position: int) -> None:
        """Goes on reading at a character offset."""
        self.position = position
        self._ahead = None

    def digits(self) -> str:
        """Takes the digits, and what is written on with them, that stand right behind the last token; "" for none."""
        start = self.position
        if self._ahead is not None or not self.text[start : start + 1].isdigit():
            return ""
        self.position = _end(_WORD, self.text, start)
        return self.text[start : self.position]

    def here(self) -> int:
        """Offset of the next thing that is neither blank nor comment."""
        if self._ahead is not None:
            return self._ahead.span.start
        self._skip_blank()
        return self.position

    def _skip_blank(self) -> None:
        text = self.text
        while True:
            self.position = start = _end(_BLANK, text, self.position)
            if text.startswith("//", start):
                end = text.find("\n", start)
                self.position = len(text) if end < 0 else end
            elif text.startswith("/*", start):
                end = text.find("*/", start + 2)
                self.position = len(text) if end < 0 else end + 2
                if end < 0:
                    hint = "end it with */; a predicate that begins with * needs a blank: / *…/"
                    raise Fault(Diagnostic("the comment is not closed", Span(start, start + 2), hint))
            else:
                return

    def _read(self) -> Token:
        self._skip_blank()
        start = self.position
        if start >= len(self.text):
            return Token("end", "", Span(len(self.text), len(self.text)))
        first = self.text[start]
        if first == '"':
            return self._string(start)
        if first == "'":
            return self._character(start)
        if first == "$" or first == "@":
            return self._sigil(start, first)
        if (end := _end(_WORD, self.text, start)) > start:
            while not first.isdigit() and self.text.startswith("::", end):  # a name of C++ or Rust, with its namespace
                if (last := _end(_WORD, self.text, end + 2)) == end + 2:
                    break
                end = last
            word, span = self.text[start:end], Span(start, end)
            self.position = end
            if first.isdigit():
                return Token("int", word, span, number(word, span))
            return Token("keyword" if word in KEYWORDS else "name", word, span)
        for size in (3, 2, 1):
            if (text := self.text[start : start + size]) in OPERATORS:
                return self._token("op", start + len(text))
        self.position = start + 1
        raise Fault(_stray(first, Span(start, start + 1)))

    def _token(self, kind: str, end: int, value: int = 0) -> Token:
        start, self.position = self.position, end
        return Token(kind, self.text[start:end], Span(start, end), value)

    def _sigil(self, start: int, sigil: str) -> Token:
        if not self.text[start + 1 : start + 2].isdigit() and (end := _end(_WORD, self.text, start + 1)) > start + 1:
            return self._token("var" if sigil == "$" else "map", end)
        if sigil == "@":
            return self._token("map", start + 1)
        if self.text.startswith("$#", start):
            return self._token("paramcount", start + 2)
        digits = re.compile(r"[0-9]+").match(self.text, start + 1)
        if digits is None or len(digits.group()) > 6 or int(digits.group()) == 0:
            self.position = digits.end() if digits else start + 1
            hint = "variables are written $name, the program's arguments $1, $2, … and their number $#"
            if self.text.startswith("$$", start):
                from tracer.lang.foreign import words

                hint = words.hint_at(self.text, start) or hint
                self.position = _end(_WORD, self.text, start + 2)
            span = Span(start, self.position)
            raise Fault(Diagnostic(f"'{self.text[start : self.position]}' is not a variable", span, hint))
        return self._token("param", digits.end(), int(digits.group()))

    def _string(self, start: int) -> Token:
        text, offset, parts = self.text, start + 1, bytearray()
        fault: Diagnostic | None = None
        while offset < len(text) and text[offset] not in '"\n':
            value, end = _escape(text, offset + 1) if text[offset] == "\\" else (_encode(text[offset]), offset + 1)
            if value is None:
                fault = fault or Diagnostic(
                    f"'{text[offset:end]}' is not an escape sequence",
                    Span(offset, end),
                    r"known are \n \t \r \" \\ \xNN and \NNN (octal, to \377); write \\ for a backslash",
                )
            else:
                parts += value
            offset = end
        if offset >= len(text) or text[offset] == "\n":
            self.position = offset
            raise Fault(Diagnostic("the string is not closed", Span(start, offset), 'end it with "; \\n is a newline'))
        self.position = offset + 1
        if fault:
            raise Fault(fault)
        return Token("string", text[start : offset + 1], Span(start, offset + 1), bytes(parts))

    def _character(self, start: int) -> Token:
        """A character constant: one byte's number."""
        text, offset = self.text, start + 1
        value: bytes | None
        if text.startswith("\\'", offset):
            value, end = b"'", offset + 2
        elif text.startswith("\\", offset):
            value, end = _escape(text, offset + 1)
        else:
            value, end = _encode(text[offset : offset + 1].strip("'\n")), offset + 1
        if value is None or len(value) != 1 or not text.startswith("'", end):
            closing = re.compile(r"(\\.|[^'\\\n])*'").match(text, offset)
            self.position = closing.end() if closing else end
            what = "a character in single quotes is one byte, or an escape sequence"
            raise Fault(Diagnostic(what, Span(start, self.position), 'texts stand in double quotes: "text"'))
        self.position = end + 1
        return Token("int", text[start : end + 1], Span(start, end + 1), value[0])


def _encode(char: str) -> bytes:
    """UTF-8; what Python could not decode in a file or an argument goes through as the byte it was."""
    try:
        return char.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b"?"


def _escape(text: str, offset: int) -> tuple[bytes | None, int]:
    """The bytes an escape stands for (None: unknown) and where the text goes on; `offset` is after the backslash."""
    if match := re.compile(_OCTAL_ESCAPE).match(text, offset):
        value = int(match.group(), 8)
        return bytes([value]) if value < 256 else None, match.end()
    if text.startswith("x", offset):
        match = re.compile(_HEX_ESCAPE).match(text, offset + 1)
        return (bytes([int(match.group(), 16)]), match.end()) if match else (None, offset + 1)
    return _SIMPLE_ESCAPES.get(text[offset : offset + 1]), min(offset + 1, len(text))


def number(text: str, span: Span) -> int:
    """The value of an integer literal: decimal, octal (0…), hex, `1e6`, C's suffixes, durations (in nanoseconds).

    Raises `Fault`.
    """
    if match := re.fullmatch(_HEX, text):
        value = int(match["digits"].replace("_", "")[:40], 16)
    elif match := re.fullmatch(_DECIMAL, text):
        digits = match["digits"].replace("_", "")[:80]
        exponent = int(match["exponent"][1:]) if match["exponent"] else 0
        if digits.startswith("0") and len(digits) > 1 and not (exponent or match["duration"]):
            if set(digits) & set("89"):
                raise Fault(
                    Diagnostic(
                        f"'{text}' is not an octal number", span, "a number that starts with 0 is octal, as in C"
                    )
                )
            value = int(digits, 8)
        else:
            value = int(digits) * 10 ** min(exponent, 25) * DURATIONS_NS.get(match["duration"] or "", 1)
    else:
        raise Fault(
            Diagnostic(
                f"'{text}' is not a number",
                span,
                "numbers are written 42, 0x2a, 052, 1_000, 1e6 or with a duration ns, us, ms, s, m, h, d",
            )
        )
    if value > MAX_UINT64:
        raise Fault(Diagnostic(f"{text} does not fit in 64 bits", span, f"the largest number is {MAX_UINT64}"))
    return value


def _stray(char: str, span: Span) -> Diagnostic:
    from tracer.lang.syntax.slips import CHARACTERS

    shown = f"'{char}'" if char.isprintable() else ascii(char)
    return Diagnostic(f"unexpected character {shown}", span, CHARACTERS.get(char))
