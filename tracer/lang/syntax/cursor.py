"""The cursor knows where a parser is in its text, and answers what every part of it asks of the next token."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tracer.errors import Diagnostic, Fault, Source, Span
from tracer.kinds.registry import SPELLINGS
from tracer.lang.syntax import ast
from tracer.lang.syntax.lexer import Lexer, Token
from tracer.lang.types.declared import USUAL

TAGS = ("struct", "union", "enum")
QUALIFIERS = ("const", "volatile")
TYPE_WORDS = frozenset((*USUAL, "string", "buffer", "inet", "void", "signed", "unsigned", "_Bool", *QUALIFIERS))


class Cursor(ABC):
    """The state of a parser. Methods raise `Fault` at what they cannot read; whoever can go on from there records it.

    The parsers of expressions, of statements and of clauses follow, each with what it adds.
    """

    def __init__(self, source: Source, params: Sequence[str]) -> None:
        self.source = source
        self.params = [param for param in params if not param.startswith("--")]
        self.options = tuple(param for param in params if param.startswith("--"))
        self.lexer = Lexer(source)
        self.diagnostics: list[Diagnostic] = []
        self.defines: Mapping[str, str] = {}
        self.typedefs: Mapping[str, object] = {}
        self.called: set[str] = set()
        """The names of the program's macros and functions."""
        self.named: set[str] = set()
        """Those of macros without parameters, and of the parameters of the macro that is read."""
        self._nesting = 0
        self._depth = 0
        self._predicate = False

    def next_is(self, *texts: str) -> bool:
        """Whether the next token is one of these operators or keywords."""
        token = self.lexer.peek()
        return token.kind in ("op", "keyword") and token.text in texts

    def begins_clause(self, token: Token) -> bool:
        """Whether an attach point begins there, in a line of its own."""
        text = self.source.text
        begins_line = not text[text.rfind("\n", 0, token.span.start) + 1 : token.span.start].strip()
        return begins_line and token.text in SPELLINGS and text.startswith(":", token.span.end)

    def at_name_of_type(self, token: Token) -> bool:
        """Whether a word is that of a type: the program's own meaning of it comes first."""
        if token.text in self.named or (token.text in self.called and self.next_is("(")):
            return False
        return token.text in TYPE_WORDS or token.text in self.typedefs

    def accept(self, text: str) -> Token | None:
        """The next token if it is this operator or keyword."""
        return self.lexer.take() if self.next_is(text) else None

    def expect(self, text: str, where: str, hint: str | None = None) -> Token:
        """The next token, which has to be this operator."""
        if self.next_is(text):
            return self.lexer.take()
        self.fail(f"expected '{text}' {where}, found {self.lexer.peek().describe()}", self.lexer.peek().span, hint)

    def fail(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Raises a fault. What is not as expected may be written so elsewhere."""
        if hint is None and message.startswith("expected "):
            from tracer.lang.syntax import slips

            hint = slips.hint_at(self.source.text, span.start)
        raise Fault(Diagnostic(message, span, hint))

    # --- what the parser of expressions adds, and types need

    @abstractmethod
    def enclosed(self) -> ast.Expr:
        """An expression inside brackets, where a slash always divides."""

    @abstractmethod
    def defined(self, token: Token) -> ast.Expr:
        """The value of a `#define`."""
