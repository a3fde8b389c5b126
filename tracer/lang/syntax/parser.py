"""Text into the syntax tree.

A fault in a statement is recorded and the parser goes on after the next `;` or before the closing `}`, so that one run
reports the faults of all statements and clauses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracer.dataclass import replace
from tracer.errors import Diagnostic, Fault, ProgramError, Source, Span
from tracer.kinds.registry import KINDS, SPELLINGS
from tracer.lang.syntax import ast, attach
from tracer.lang.syntax.lexer import Token
from tracer.lang.syntax.statements import StatementParser, TooManyFaults
from tracer.lang.types.declared import Declared

if TYPE_CHECKING:
    from tracer.lang.syntax.c.declarations import Declarations
    from tracer.lang.syntax.imports import Imports

_WORD = re.compile(r"\w*", re.A)  # as in the lexer


def parse(source: Source, params: Sequence[str] = ()) -> ast.Program:
    """The syntax tree of a program; `params` are what `$1`, `$2`, … stand for.

    Raises `ProgramError` with a diagnostic for each fault.
    """
    parser = _parser(source, params)
    program = parser.program()
    whole = source if parser.imports is None else parser.imports.source
    if parser.diagnostics:
        raise ProgramError(whole, parser.diagnostics)
    return replace(program, source=whole)


def _parser(source: Source, params: Sequence[str], start: int = 0) -> Parser:
    """The parser of what the preprocessor leaves of a text from `start` on."""
    text = source.text[start:]
    has_directives = "#" in text and re.search(r"^[ \t]*#[^!]", text, re.M)
    if not (source.included or has_directives or "BPFTRACE_HAVE_BTF" in text):
        return Parser(source, params)
    from tracer.lang.syntax.c.directives import preprocess

    try:
        done = preprocess(text, source.included, source.include_paths)
    except Fault as fault:
        diagnostic = fault.diagnostic
        left_out = _probes_left_out(source, params, start)
        raise ProgramError(source, left_out or [replace(diagnostic, span=diagnostic.span.moved(start))]) from None
    parser = Parser(replace(source, text=source.text[:start] + done.text), params)
    parser.defines = done.macros
    if done.headers:
        parser.declarations.header(done.headers)
    return parser


def _probes_left_out(source: Source, params: Sequence[str], start: int) -> list[Diagnostic]:
    """The warnings, where a header cannot be read, of the probes that no header would help, as those on the kernel."""
    text = re.sub(r"^[ \t]*#.*", lambda line: " " * len(line[0]), source.text[start:], flags=re.M)
    parser = Parser(replace(source, text=source.text[:start] + text, included=()), params)
    parser.program()
    from tracer.lang import unsupported

    remedies = {remedy for _, remedy in unsupported.PROBES.values()}
    return [diagnostic for diagnostic in parser.diagnostics if diagnostic.hint in remedies]


class Parser(StatementParser):
    """Clauses and what may stand before them."""

    _declarations: Declarations | None = None
    imports: Imports | None = None
    imported = False
    _foreign = 0
    """How many of the clauses so far stand in files that were imported."""
    _begun = False
    """Whether a macro, a function or a map has been defined here."""

    @property
    def declarations(self) -> Declarations:
        """The types of C that are declared so far."""
        if self._declarations is None:
            from tracer.lang.syntax.c.declarations import Declarations

            self._declarations = Declarations()
            self.typedefs = self._declarations.types
        return self._declarations

    def program(self) -> ast.Program:
        """The whole text; faults are in `diagnostics`."""
        settings: list[ast.Setting] = []
        clauses: list[ast.Clause] = []
        try:
            self._definitions(settings, clauses)
            if not clauses and not self.diagnostics:
                end = len(self.source.text)
                self.record(
                    Diagnostic(
                        "the program has no clause",
                        Span(0, end),
                        "write PROBE { STATEMENTS }, such as BEGIN { exit(); }",
                    )
                )
        except TooManyFaults:
            pass
        types = self._declarations.declared() if self._declarations is not None else Declared()
        return ast.Program(
            self.source, tuple(settings), tuple(clauses), types, tuple(self._macros), self.options, tuple(self._maps),
            tuple(self._functions),
        )  # fmt: skip

    def _definitions(self, settings: list[ast.Setting], clauses: list[ast.Clause]) -> None:
        self._macros: list[ast.Macro] = []
        self._functions: list[ast.FunctionDefinition] = []
        self._maps: list[ast.MapDeclaration] = []
        if "macro" in self.source.text or "fn" in self.source.text:
            from tracer.lang.syntax.definitions import defined_words

            for name, alone in defined_words(self.source.text):
                self.called.add(name)
                if alone:
                    self.named.add(name)
        while not self._at_end():
            self._top_level(settings, clauses)

    def _at_end(self) -> bool:
        try:
            return self.lexer.here() >= len(self.source.text)
        except Fault as fault:
            self.record(fault.diagnostic)
            return True

    def _top_level(self, settings: list[ast.Setting], clauses: list[ast.Clause]) -> None:
        start = self.lexer.here()
        text = self.source.text
        try:
            match = _WORD.match(text, start)
            word = match.group() if match and text[match.end() : match.end() + 1] != ":" else ""
            if word == "config":
                if self.imported:
                    what = "a file that is imported has no config"
                    self.fail(what, Span(start, start + len(word)), "the program that imports it can have one")
                if len(clauses) > self._foreign:
                    self.fail("config must stand before the first clause", Span(start, start + len(word)))
                if settings:
                    self.fail("a program has one config", Span(start, start + len(word)), "put all settings into it")
                from tracer.lang.syntax.definitions import config

                settings.extend(config(self))
            elif word == "let":
                from tracer.lang.syntax.definitions import map_declaration

                self._begun = True
                self._maps.append(map_declaration(self))
            elif word == "macro":
                from tracer.lang.syntax.definitions import macro

                self._begun = True
                self._macros.append(macro(self))
            elif word == "fn":
                from tracer.lang.syntax.definitions import function

                self._begun = True
                self._functions.append(function(self))
            elif word in ("struct", "union", "enum", "typedef"):
                self.lexer.seek(self.declarations.declaration(text, start, self.defines))
            elif word == "import":
                self._import(settings, clauses)
            else:
                if word and word not in SPELLINGS:
                    self._refuse(word, start)
                clause = self._clause()
                clauses.extend(() if clause is None else (clause,))
        except Fault as fault:
            self.record(fault.diagnostic)
            self._skip_clause(start)
        except RecursionError:
            hint = "assign its parts to variables"
            self.record(Diagnostic("this is nested too deeply", Span(start, start + 1), hint))
            raise TooManyFaults from None

    def _refuse(self, word: str, start: int) -> None:
        """Says what bpftrace has of this name, if it is one that is left out."""
        from tracer.lang import unsupported

        if word in unsupported.STATEMENTS:
            message, hint = unsupported.phrase(f"'{word}'", unsupported.STATEMENTS[word])
            self.fail(message, Span(start, start + len(word)), hint)

    # --- clauses

    def _clause(self) -> ast.Clause | None:
        """A clause; None where it is for bpftrace's own tests alone."""
        start = self.lexer.here()
        points: list[ast.AttachPoint] = []
        faulty = False
        position = start
        while True:
            try:
                if (behind := attach.left_out(self.source.text, position)) is not None:
                    position = behind
                else:
                    point, position = attach.read(self.source.text, position, self.params)
                    points.append(point)
            except Fault as fault:
                self._no_attach_point(start, position)
                faulty = True
                position = max(self._after_attach_point(position), fault.diagnostic.span.end)
                self.record(self._with_quotes(fault.diagnostic, position))
            self.lexer.seek(position)
            position = self.lexer.here()
            if not self.source.text.startswith(",", position):
                break
            self.lexer.seek(position + 1)
            position = self.lexer.here()
            if self.source.text.startswith(("{", "/"), position):
                break
        if faulty and not self.source.text.startswith(("{", "/"), position):
            self._seek_brace(position)
            if self.lexer.peek().kind == "end":  # what is wrong with the attach point took the rest of the text
                return ast.Clause(tuple(points), None, (), Span(start, position))
        by = self._span_key(points)
        predicate = self._optional_predicate()
        if not self.next_is("{"):
            token = self.lexer.peek()
            # `PROBE // { … }` is a comment, and was meant to be more than that.
            if token.kind == "end":
                nothing = points and "{" not in self.source.text[points[-1].span.end :]
            else:
                nothing = points and self.begins_clause(token)
            bare = all(point.until is None and KINDS[point.kind].clause.at_hits for point in points)
            if nothing and bare:
                end_of_text = token.span.end if token.kind == "end" else points[-1].span.end
                return ast.Clause(tuple(points), predicate, (), Span(start, end_of_text), bare=True)
            self.fail(
                f"expected '{{' after the attach point, found {token.describe()}", token.span, self._clause_hint(token)
            )
        body, end = self.block()
        return ast.Clause(tuple(points), predicate, body, Span(start, end.end), by=by) if points or faulty else None

    def _span_key(self, points: list[ast.AttachPoint]) -> ast.Expr | None:
        """The key of a span, which is alone in its clause."""
        spans = [point for point in points if point.until is not None]
        if not spans:
            return None
        if len(points) > 1:
            self.fail("a span stands alone in its clause", spans[0].span, "write a clause for each")
        if self.lexer.peek().text != "by":
            return None
        self.lexer.take()
        return self.key()

    def key(self) -> ast.Expr:
        """The key of a span, behind its `by`: what an operator takes, since a `/` behind it begins the predicate."""
        return self._operand()

    def _no_attach_point(self, start: int, position: int) -> None:
        """Raises where the clause does not even begin like one."""
        text = self.source.text
        if position == start and text[position : position + 1] in ("{", "}", "/", ";", ",", ")", "]"):
            self.fail(
                f"expected an attach point, found '{text[position]}'",
                Span(position, position + 1),
                "a clause starts with a probe: usdt:FILE:PROVIDER:NAME, uprobe:FILE:FUNCTION, interval:s:1, BEGIN, END",
            )

    def _with_quotes(self, diagnostic: Diagnostic, end: int) -> Diagnostic:
        """Adds to a fault the likeliest reason where an attach point was cut at a blank."""
        rest = self.source.text[end:].lstrip(" \t")
        if "incomplete" not in diagnostic.message or rest.startswith(("{", "/", ",", "\n")) or not rest:
            return diagnostic
        return replace(diagnostic, hint='a file with blanks in its path needs quotes: uprobe:"/my app":FUNCTION')

    def _after_attach_point(self, position: int) -> int:
        try:
            return attach.scan(self.source.text, position, self.params)[1]
        except Fault as fault:
            return fault.diagnostic.span.end

    def _clause_hint(self, token: Token) -> str | None:
        if token.kind == "end":
            return "a clause is PROBE { STATEMENTS }"
        return "statements stand in braces; a path or name with blanks or commas needs quotes"

    def _optional_predicate(self) -> ast.Expr | None:
        if not self.next_is("/"):
            return None
        opening = self.lexer.take()
        try:
            predicate = self.predicate()
            if not self.next_is("/"):
                token = self.lexer.peek()
                self.fail(
                    f"expected '/' after the predicate, found {token.describe()}", token.span, self._comparison_hint()
                )
            self.lexer.take()
            return predicate
        except Fault as fault:
            self.record(fault.diagnostic)
            self._seek_brace(opening.span.end)
            return None

    def _seek_brace(self, start: int) -> None:
        """Goes on at the next opening brace."""
        brace = self.source.text.find("{", start)
        self.lexer.seek(brace if brace >= 0 else len(self.source.text))

    def _skip_clause(self, start: int) -> None:
        """Goes on after the block of the clause that began at `start`."""
        depth = 0
        while True:
            try:
                token = self.lexer.take()
            except Fault:
                continue
            if token.kind == "end":
                return
            if token.kind == "op" and token.text == "{":
                depth += 1
            elif token.kind == "op" and token.text == "}":
                depth -= 1
                if depth <= 0:
                    if self.next_is_quietly(";"):
                        self.lexer.take()
                    return
            elif token.kind == "op" and token.text == ";" and depth == 0:
                return

    # --- imports

    def _import(self, settings: list[ast.Setting], clauses: list[ast.Clause]) -> None:
        """`import "file.bt";`: what that file defines, before what follows."""
        keyword, name = self.lexer.take(), self.lexer.take()
        if name.kind != "string" or not isinstance(name.value, bytes):
            self.fail(f"expected a file to import, found {name.describe()}", name.span, 'write import "file.bt";')
        span = keyword.span.to(name.span)
        self.expect(";", "after the file to import")
        if len(clauses) > self._foreign or self._begun:
            self.fail("an import stands before the first clause, macro, function and map", span)
        if self.imports is None:
            from tracer.lang.syntax.imports import Imports

            self.imports = Imports(self.source)
        importer = self.source.part(span.start)[1]
        for start, text in self.imports.texts(os.fsdecode(name.value), importer, span):
            whole = replace(self.imports.source, included=())
            parser = _parser(whole, [*self.params, *self.options], start)
            parser.imports, parser.imported = self.imports, True
            if self._declarations is not None and parser._declarations is None:
                parser._declarations, parser.typedefs = self._declarations, self.typedefs
            parser.defines = {**self.defines, **parser.defines}
            parser.lexer.seek(start + (text.find("\n") % (len(text) + 1) if text.startswith("#!") else 0))
            parser._definitions(settings, clauses)
            self._declarations, self.typedefs, self.defines = parser._declarations, parser.typedefs, parser.defines
            self._macros += parser._macros
            self._functions += parser._functions
            self._maps += parser._maps
            for fault in parser.diagnostics:
                self.record(fault)
        self._foreign = len(clauses)
