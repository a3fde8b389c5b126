"""A program's text laid out anew, as `--fmt` prints it: two columns for each block, a statement a line.

Works on the words of the text, not on the tree: comments, the spelling of numbers and blank lines stay. The layout is
that of bpftrace's `--fmt`, but for brackets, which stay as they were written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracer.dataclass import NamedTuple
from tracer.errors import Fault, ProgramError, Source
from tracer.kinds.registry import SPELLINGS
from tracer.lang.syntax import attach
from tracer.lang.syntax.cursor import TAGS
from tracer.lang.syntax.lexer import OPERATORS
from tracer.lang.syntax.parser import parse
from tracer.lang.syntax.type_names import template_end

_WORD = re.compile(
    r"(?P<blank>[ \t\r\n\f\v]+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?P<name>[$@]?[A-Za-z_]\w*(?:::\w+)*|@|\$#|\$?[0-9]\w*)"
    r"|(?P<op>\?:|" + "|".join(map(re.escape, OPERATORS)) + ")|(?P<other>.)",
    re.S,
)
_PARAM = re.compile(r"\$\d")
_SLASH_AND_BLANKS = re.compile(r"/(?:\s|//[^\n]*\n|/\*.*?\*/)*", re.S)
_DIRECTIVE = re.compile(r"[ \t]*#(?:\\\n|[^\n])*")
_HEADED = ("if", "while", "for", "unroll", "else")
_words_of = str.split
_SPACED = frozenset(_words_of("= += -= *= /= %= &= |= ^= <<= >>= == != <= >= && || << >> ? : ?: < > / % | ^"))
_EITHER = frozenset("+-*&")
_BEFORE_A_VALUE = frozenset(_words_of("return let comptime if while for unroll else in"))


class _Word(NamedTuple):
    kind: str
    text: str
    lines: int
    """How many line breaks stand before it."""


def laid_out(source: Source) -> str:
    """The text in its layout. Raises `ProgramError` where it is no program."""
    try:
        parse(source)
    except ProgramError as error:
        # What `$1` is in an attach point is known when the program runs.
        if not all(_PARAM.search(source.text[fault.span.start : fault.span.end]) for fault in error.diagnostics):
            raise
    return _Layout(source.text).whole()


class _Layout:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.out: list[str] = []
        self._tagged = False

    def whole(self) -> str:
        while True:
            lines = self._skip()
            if self.position >= len(self.text):
                return "".join(self.out)
            if self.out:
                self.out.append("\n" * (lines - 1))
            if self.text[self.position] == "#":
                directive = _DIRECTIVE.match(self.text, self.position)
                assert directive is not None
                self.position = directive.end()
                self.out.append(directive.group().rstrip() + "\n")
            elif self.text.startswith(("//", "/*"), self.position):
                self.out.append(_comment(self._take()) + "\n")
            elif self.text[self.position] == ";":
                self.position += 1
            else:
                self._part()

    def _part(self) -> None:
        word = _WORD.match(self.text, self.position)
        name = word.group() if word is not None else ""
        if name in ("struct", "union", "enum", "typedef", "import", "let"):
            self._as_it_is(name == "typedef")
        elif name == "config":
            self.out.append("config = ")
            self.position = self.text.index("{", self.position)
            self.out.append(_block(self._body(), 0) + "\n")
        elif name in ("macro", "fn"):
            start = self.position
            self.position = self.text.index("{", start)
            self.out.append(_line(list(_words(self.text[start : self.position]))) + "\n")
            self.out.append(_block(self._body(), 0, closed=False) + "\n")
        else:
            self._clause()

    def _as_it_is(self, to_semicolon: bool) -> None:
        """Up to the end of a declaration: a `;`, which a struct without names behind it need not have."""
        start, depth = self.position, 0
        while self.position < len(self.text):
            word = self._take()
            depth += (word.text == "{") - (word.text == "}")
            more = to_semicolon or self._follows(";") or self._follows("__attribute__")
            if depth == 0 and (word.text == ";" or (word.text == "}" and not more)):
                break
        self.out.append(self.text[start : self.position].rstrip() + "\n")

    def _clause(self) -> None:
        points = []
        while True:
            self._comments()
            start = self.position
            try:
                self.position = attach.end_of(self.text, self.position)
            except Fault as fault:
                self.position = fault.diagnostic.span.end
            points.append(self.text[start : self.position].strip())
            self._comments()
            if not self._follows(","):
                break
            self.position += 1
        self.out.append(",\n".join(points) + self._key() + "\n")
        self._comments()
        if self._follows("/"):
            predicate: list[_Word] = []
            self.position += 1
            depth = 0
            while depth or not self._closes():
                word = self._take()
                depth += (word.text in "([") - (word.text in ")]")
                predicate.append(word)
            self.position += 1
            self.out.append(f"/{_line(predicate)}/\n")
            self._comments()
        if self.position < len(self.text) and not self._begins_clause(self.position):  # else it shows its hits
            self.out.append(_block(self._body(), 0) + "\n")

    def _key(self) -> str:
        """The key of a span, with a blank before it."""
        if not self._follows("by"):
            return ""
        key: list[_Word] = []
        depth = 0
        while depth or not (self._follows("{") or self._follows("/")):
            word = self._take()
            if word.kind == "end":
                break
            depth += (word.text in "([") - (word.text in ")]")
            key.append(word)
        return f" {_line(key)}"

    def _comments(self) -> None:
        """Comments between the parts of a clause get lines of their own, before what follows."""
        self._skip()
        while self.text.startswith(("//", "/*"), self.position):
            self.out.append(_comment(self._take()) + "\n")
            self._skip()

    def _closes(self) -> bool:
        """Whether the slash that is next ends the predicate: a block follows, or nothing, or another clause."""
        lines = self._skip()
        if self.text[self.position : self.position + 1] != "/" or lines < 0:
            return self.position >= len(self.text)
        blanks = _SLASH_AND_BLANKS.match(self.text, self.position)
        assert blanks is not None
        behind = blanks.end()
        return self.text[behind : behind + 1] in ("{", "") or self._begins_clause(behind)

    def _begins_clause(self, position: int) -> bool:
        """See `Cursor.begins_clause`."""
        begins_line = not self.text[self.text.rfind("\n", 0, position) + 1 : position].strip()
        word = _WORD.match(self.text, position)
        return begins_line and word is not None and word[0] in SPELLINGS and self.text.startswith(":", word.end())

    def _body(self) -> list[_Word]:
        """The words of a block, its braces included."""
        words, depth = [self._take()], 1
        while depth and self.position < len(self.text):
            word = self._take()
            depth += (word.text == "{") - (word.text == "}")
            words.append(word)
        return words

    def _follows(self, text: str) -> bool:
        kept = self.position
        self._skip()
        follows = self.text.startswith(text, self.position) and not self.text.startswith(("//", "/*"), self.position)
        if not follows:
            self.position = kept
        return follows

    def _skip(self) -> int:
        """Passes over blanks; how many lines that were."""
        match = re.compile(r"\s*").match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        return match.group().count("\n")

    def _take(self) -> _Word:
        lines = self._skip()
        match = _WORD.match(self.text, self.position)
        if match is None or match.lastgroup is None:
            return _Word("end", "", lines)
        self.position = match.end()
        if self._tagged and match.lastgroup == "name":
            self.position = template_end(self.text, self.position) or self.position
        self._tagged = match.group() in TAGS
        return _Word(match.lastgroup, self.text[match.start() : self.position], lines)


def _words(text: str) -> Iterator[_Word]:
    layout = _Layout(text)
    while (word := layout._take()).kind != "end":
        yield word


def _comment(word: _Word) -> str:
    return word.text.rstrip()


def _block(words: list[_Word], depth: int, closed: bool = True) -> str:
    """A block in lines of its own; `closed`: its last statement ends in a semicolon."""
    inner = words[1:-1]
    if all(word.text == ";" for word in inner):
        return "{}"
    pad = "  " * (depth + 1)
    lines: list[str] = []
    for index, statement in enumerate(parts := list(_statements(inner))):
        if lines:
            lines += [""] * max(statement[0].lines - 1, 0)
        elif statement[0].lines > 1:
            lines += [""] * (statement[0].lines - 1)
        if statement[0].kind == "comment":
            if statement[0].lines == 0 and lines and lines[-1]:
                lines[-1] += " " + _comment(statement[0])
            else:
                lines.append(pad + _comment(statement[0]))
            continue
        last = all(part[0].kind == "comment" for part in parts[index + 1 :])
        lines.append(pad + _statement(statement, depth + 1, closed or not last))
    return "{\n" + "\n".join(lines) + "\n" + "  " * depth + "}"


def _statements(words: list[_Word]) -> Iterator[list[_Word]]:
    """The statements of a block, and the comments between them."""
    index = 0
    while index < len(words):
        if words[index].kind == "comment":
            yield [words[index]]
            index += 1
            continue
        start = index
        index = _end(words, index)
        if any(word.text != ";" for word in words[start:index]):
            yield words[start:index]


def _end(words: list[_Word], index: int) -> int:
    """The end of the statement that begins there."""
    first, depth = words[index].text, 0
    while index < len(words):
        word = words[index]
        index += 1
        depth += (word.text in ("(", "[", "{")) - (word.text in (")", "]", "}"))
        if depth:
            continue
        if word.text == ";":
            return index
        if word.text == "}" and first in (*_HEADED, "{"):
            if index < len(words) and words[index].text == "else":
                continue
            return index
    return index


def _statement(words: list[_Word], depth: int, closed: bool) -> str:
    if words[0].text in (*_HEADED, "{"):
        return _headed(words, depth)
    ended = words[-1].text == ";"
    body = words[:-1] if ended else words
    return _line(body) + (";" if ended or closed else "")


def _headed(words: list[_Word], depth: int) -> str:
    """`if`, `else`, loops and bare blocks."""
    pieces: list[str] = []
    head: list[_Word] = []
    index = 0
    while index < len(words):
        word = words[index]
        level = 0
        if word.text == "{":
            start = index
            while index < len(words):
                level += (words[index].text == "{") - (words[index].text == "}")
                index += 1
                if not level:
                    break
            if head:
                pieces.append(_line(_bare(head)))
            pieces.append(_block(words[start:index], depth))
            head = []
            continue
        head.append(word)
        index += 1
    if rest := _line([word for word in head if word.text != ";"]):
        pieces.append(rest)
    return " ".join(pieces)


def _bare(head: list[_Word]) -> list[_Word]:
    """The head of a statement without the brackets that a single value, or what a loop goes over, does not need."""
    first = next((index for index, word in enumerate(head) if word.text == "("), -1)
    if first < 1 or head[first - 1].text not in ("if", "while", "for") or head[-1].text != ")":
        return head
    depth = 0
    inner = head[first + 1 : -1]
    for index, word in enumerate(inner):
        depth += (word.text in ("(", "[")) - (word.text in (")", "]"))
        if depth < 0 or word.kind == "comment":
            return head
        operator = word.text in _SPACED or word.text == "," or (word.text in _EITHER and index > 0)
        if operator and head[first - 1].text != "for" and not depth:
            return head
    return [*head[:first], *inner]


def _line(words: list[_Word]) -> str:
    """An expression or a simple statement in one line; comments in it become `/* … */`."""
    line = ""
    before: _Word | None = None
    unary = False
    types = _casts(words)
    for index, word in enumerate(words):
        text = word.text
        if word.kind == "comment":
            text = _comment(word)
            text = f"/* {text[2:].strip()} */" if text.startswith("//") else text
            line += (" " if line else "") + text
            before, unary = _Word("op", "=", 0), False
            continue
        value_before = before is not None and (
            before.kind in ("string",)
            or (before.kind == "name" and before.text not in _BEFORE_A_VALUE)
            or (before.text in (")", "]", "}") and index - 1 not in types)
            or (before.text in ("++", "--") and not unary)
        )
        is_unary = text in ("!", "~") or (text in (*_EITHER, "++", "--") and not value_before)
        if before is None or unary or text in (",", ";", ")", "]", ".", "->", "..") or before.text in (
            "(", "[", ".", "->", "..",
        ):  # fmt: skip
            gap = " " if unary and before is not None and before.text[-1] == text[0] in "+-&" else ""
        elif text in ("++", "--"):
            gap = "" if value_before else " "
        elif text in ("(", "["):
            gap = "" if value_before or index - 1 in types else " "
        elif index - 1 in types:
            gap = ""
        else:
            gap = " "
        if text == "*" and index + 1 < len(words) and words[index + 1].text in (")", "*") and not is_unary:
            gap = " " if before is not None and before.text != "*" else ""
        line += gap + text
        before, unary = word, is_unary and text not in (")",)
    return line


def _casts(words: list[_Word]) -> set[int]:
    """The closing parenthesis of a type before a value."""
    closings = set()
    for index, word in enumerate(words):
        if word.text != "(" or (index and words[index - 1].kind == "name" and words[index - 1].text not in ("return",)):
            continue
        place = index + 1
        names = 0
        while place < len(words) and (words[place].kind == "name" and words[place].text[0].isalpha()):
            names += 1
            place += 1
        while place < len(words) and (words[place].text in ("*", "[", "]") or words[place].text.isdigit()):
            place += 1
        if not names or place + 1 >= len(words) or words[place].text != ")":
            continue
        behind = words[place + 1]
        is_type = re.fullmatch(r"u?int\d+(_t)?|bool|char|short|int|long|struct|union|enum|unsigned|string|size_t|void",
                             words[index + 1].text)  # fmt: skip
        if behind.kind in ("name", "string") or behind.text in ("(", "!", "~") or is_type:
            closings.add(place)
    return closings
