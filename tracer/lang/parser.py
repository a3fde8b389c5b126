"""Text into the syntax tree.

A fault in a statement is recorded and the parser goes on after the next `;` or before the closing `}`, so that one run
reports the faults of all statements and clauses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.errors import Diagnostic, ProgramError, Source, Span
from tracer.lang import ast, attach, unsupported
from tracer.lang.expressions import MAX_DIAGNOSTICS, ExpressionParser
from tracer.lang.lexer import Fault, Token

ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
MAX_BLOCKS = 32
"""How deep blocks may nest."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse(source: Source, params: Sequence[str] = ()) -> ast.Program:
    """The syntax tree of a program; `params` are what `$1`, `$2`, … stand for.

    Raises `ProgramError` with a diagnostic for each fault.
    """
    parser = Parser(source, params)
    program = parser.program()
    if parser.diagnostics:
        raise ProgramError(source, parser.diagnostics)
    return program


class _TooMany(Exception):
    """Enough faults were found."""


class Parser(ExpressionParser):
    """Clauses and statements."""

    def __init__(self, source: Source, params: Sequence[str]) -> None:
        super().__init__(source, params)
        self._blocks = 0

    def program(self) -> ast.Program:
        """The whole text; faults are in `diagnostics`."""
        config: list[ast.Setting] = []
        clauses: list[ast.Clause] = []
        try:
            while not self._at_end():
                self._top_level(config, clauses)
            if not clauses and not self.diagnostics:
                end = len(self.source.text)
                self._record(
                    Diagnostic(
                        "the program has no clause",
                        Span(0, end),
                        "write PROBE { STATEMENTS }, such as BEGIN { exit(); }",
                    )
                )
        except _TooMany:
            pass
        return ast.Program(self.source, tuple(config), tuple(clauses))

    def _record(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)
        if len(self.diagnostics) >= MAX_DIAGNOSTICS:
            raise _TooMany

    def _at_end(self) -> bool:
        try:
            return self.lexer.here() >= len(self.source.text)
        except Fault as fault:
            self._record(fault.diagnostic)
            return True

    def _top_level(self, config: list[ast.Setting], clauses: list[ast.Clause]) -> None:
        start = self.lexer.here()
        text = self.source.text
        try:
            found = _WORD.match(text, start)
            word = found.group() if found and text[found.end() : found.end() + 1] != ":" else ""
            if word == "config":
                if clauses:
                    self.fail("config must stand before the first clause", Span(start, start + len(word)))
                config.extend(self._config())
            elif word == "let":
                self.fail(
                    "declarations of maps are not supported: a map needs none",
                    Span(start, start + len(word)),
                    "config = { max_map_keys = N } limits the keys of every map",
                )
            elif word in unsupported.STATEMENTS:
                message, hint = unsupported.phrase(f"'{word}'", unsupported.STATEMENTS[word])
                self.fail(message, Span(start, start + len(word)), hint)
            elif text[start] == "#":
                line_end = text.find("\n", start)
                self.lexer.seek(line_end if line_end >= 0 else len(text))
                self._record(
                    Diagnostic(
                        "preprocessor directives are not supported",
                        Span(start, self.lexer.position),
                        "write constants in the program itself; headers are never needed",
                    )
                )
            else:
                clauses.append(self._clause())
        except Fault as fault:
            self._record(fault.diagnostic)
            self._skip_clause(start)

    # --- clauses

    def _clause(self) -> ast.Clause:
        start = self.lexer.here()
        points: list[ast.AttachPoint] = []
        at = start
        while True:
            try:
                point, at = attach.read(self.source.text, at, self.params)
                points.append(point)
            except Fault as fault:
                self._no_attach_point(start, at)
                self._record(fault.diagnostic)
                at = self._after_attach_point(at)
            self.lexer.seek(at)
            at = self.lexer.here()
            if not self.source.text.startswith(",", at):
                break
            self.lexer.seek(at + 1)
            at = self.lexer.here()
            if self.source.text.startswith(("{", "/"), at):
                break
        predicate = self._optional_predicate()
        if not self.at("{"):
            found = self.lexer.peek()
            self.fail(
                f"expected '{{' after the attach point, found {found.describe()}", found.span, self._clause_hint(found)
            )
        body, end = self.block()
        return ast.Clause(tuple(points), predicate, body, Span(start, end.end))

    def _no_attach_point(self, start: int, at: int) -> None:
        """Raises where the clause does not even begin like one."""
        text = self.source.text
        if at == start and text[at : at + 1] in ("{", "}", "/", ";", ",", ")", "]"):
            self.fail(
                f"expected an attach point, found '{text[at]}'",
                Span(at, at + 1),
                "a clause starts with a probe: usdt:FILE:PROVIDER:NAME, uprobe:FILE:FUNCTION, interval:s:1, BEGIN, END",
            )

    def _after_attach_point(self, at: int) -> int:
        try:
            return attach.scan(self.source.text, at, self.params)[1]
        except Fault as fault:
            return fault.diagnostic.span.end

    def _clause_hint(self, found: Token) -> str | None:
        if found.kind == "end":
            return "a clause is PROBE { STATEMENTS }"
        return "a path or name with blanks or commas needs quotes; several attach points have commas between them"

    def _optional_predicate(self) -> ast.Expr | None:
        if not self.at("/"):
            return None
        opening = self.lexer.take()
        try:
            predicate = self.predicate()
            if not self.at("/"):
                found = self.lexer.peek()
                self.fail(
                    f"expected '/' after the predicate, found {found.describe()}", found.span, self._comparison_hint()
                )
            self.lexer.take()
            return predicate
        except Fault as fault:
            self._record(fault.diagnostic)
            brace = self.source.text.find("{", opening.span.end)
            self.lexer.seek(brace if brace >= 0 else len(self.source.text))
            return None

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
                    return
            elif token.kind == "op" and token.text == ";" and depth == 0:
                return

    # --- config

    def _config(self) -> list[ast.Setting]:
        self.lexer.take()
        self.expect("=", "after config")
        self.expect("{", "after 'config ='")
        settings = []
        while not self.at("}"):
            name = self.lexer.take()
            if name.kind not in ("name", "keyword"):
                self.fail(f"expected the name of a setting, found {name.describe()}", name.span)
            self.expect("=", f"after {name.text}")
            value = self.lexer.take()
            if value.kind not in ("name", "keyword", "int", "string"):
                self.fail(f"expected the value of {name.text}, found {value.describe()}", value.span)
            text = value.value.decode("utf-8", "replace") if isinstance(value.value, bytes) else value.text
            if value.kind == "int":
                text = str(value.value)
            settings.append(ast.Setting(name.text, text, name.span.to(value.span), value.span))
            if not self.accept(";") and not self.at("}"):
                found = self.lexer.peek()
                self.fail(f"expected ';' after the setting, found {found.describe()}", found.span)
        self.lexer.take()
        return settings

    # --- statements

    def block(self) -> tuple[tuple[ast.Stmt, ...], Span]:
        """`{ … }` and the span of its closing brace."""
        opening = self.lexer.take()
        self._blocks += 1
        statements: list[ast.Stmt] = []
        try:
            if self._blocks > MAX_BLOCKS:
                self.fail("blocks are nested too deeply", opening.span, f"at most {MAX_BLOCKS} levels")
            while True:
                try:
                    if self.at("}"):
                        return tuple(statements), self.lexer.take().span
                    if self.lexer.peek().kind == "end":
                        break
                    statement = self._statement()
                    if statement is not None:
                        statements.append(statement)
                except Fault as fault:
                    self._record(fault.diagnostic)
                    self._skip_statement()
            self._record(Diagnostic("the block is not closed", opening.span, "a '}' is missing"))
            return tuple(statements), self.lexer.peek().span
        finally:
            self._blocks -= 1

    def _skip_statement(self) -> None:
        depth = 0
        while True:
            try:
                token = self.lexer.peek()
            except Fault:
                continue
            if token.kind == "end" or (token.text == "}" and token.kind == "op" and depth == 0):
                return
            self.lexer.take()
            if token.kind != "op":
                continue
            if token.text == "{":
                depth += 1
            elif token.text == "}":
                depth -= 1
                if depth == 0 and not self.at_quietly(";"):
                    return
            elif token.text == ";" and depth == 0:
                return

    def at_quietly(self, text: str) -> bool:
        """`at`, where a fault in the next token does not matter."""
        try:
            return self.at(text)
        except Fault:
            return False

    def _body(self, what: str) -> tuple[ast.Stmt, ...]:
        if not self.at("{"):
            found = self.lexer.peek()
            self.fail(f"expected '{{' after {what}, found {found.describe()}", found.span, "a body always needs braces")
        return self.block()[0]

    def _statement(self) -> ast.Stmt | None:
        token = self.lexer.peek()
        if token.kind == "op" and token.text == ";":
            self.lexer.take()
            return None
        if token.kind == "op" and token.text == "{":
            body, end = self.block()
            return ast.Block(token.span.to(end), body)
        if token.kind == "keyword":
            compound = self._compound(token)
            if compound is not None:
                return compound
        statement = self._simple(token)
        if not self.at("}") and not self.accept(";"):
            found = self.lexer.peek()
            after = Span(statement.span.end, statement.span.end + 1)
            if (found.kind == "op" and found.text in (")", "]", ",", ":")) or found.kind == "end":
                after = found.span
            self.fail(f"expected ';' after the statement, found {found.describe()}", after)
        return statement

    def _compound(self, token: Token) -> ast.Stmt | None:
        """A statement that ends with a block and needs no `;`."""
        if token.text == "if":
            return self._if()
        if token.text == "while":
            self.lexer.take()
            condition = self.expression()
            body = self._body("the condition of while")
            return ast.While(token.span.to(condition.span), condition, body)
        if token.text == "unroll":
            self.lexer.take()
            count = self.expression()
            body = self._body("the count of unroll")
            return ast.Unroll(token.span.to(count.span), count, body)
        if token.text == "for":
            return self._for()
        if token.text == "else":
            self.fail("'else' without an 'if' before it", token.span)
        return None

    def _if(self) -> ast.Stmt:
        keyword = self.lexer.take()
        if self.at("comptime"):
            self.lexer.take()
        condition = self.expression()
        then = self._body("the condition of if")
        otherwise: tuple[ast.Stmt, ...] = ()
        if self.accept("else"):
            if self.at("if"):
                self._blocks += 1
                try:
                    if self._blocks > MAX_BLOCKS:
                        self.fail("'else if' follows too many others", self.lexer.peek().span, f"at most {MAX_BLOCKS}")
                    otherwise = (self._if(),)
                finally:
                    self._blocks -= 1
            else:
                otherwise = self._body("else")
        return ast.If(keyword.span.to(condition.span), condition, then, otherwise)

    def _for(self) -> ast.Stmt:
        keyword = self.lexer.take()
        opening = self.accept("(")
        variable = self.lexer.take()
        if variable.kind != "var":
            self.fail(
                f"expected a variable after 'for', found {variable.describe()}",
                variable.span,
                "write for ($i : 0..10) { … } or for ($kv : @map) { … }",
            )
        target = ast.Var(variable.span, variable.text)
        self.expect(":", f"after {variable.text}")
        start = self.expression()
        if self.accept(".."):
            stop = self.expression()
            end = self.expect(")", "after the range").span if opening else stop.span
            return ast.ForRange(keyword.span.to(end), target, start, stop, self._body("the range"))
        if not isinstance(start, ast.MapRef) or start.key:
            self.fail(
                "for goes over a map or a range", start.span, "write for ($kv : @map) { … } or for ($i : 0..10) { … }"
            )
        end = self.expect(")", "after the map").span if opening else start.span
        return ast.ForMap(keyword.span.to(end), target, start, self._body("the map"))

    def _simple(self, token: Token) -> ast.Stmt:
        """A statement that ends with `;`."""
        if token.kind == "keyword":
            if token.text == "let":
                return self._let()
            if token.text == "return":
                self.lexer.take()
                value = None if self.at(";", "}") else self.expression()
                return ast.Return(token.span.to(value.span) if value else token.span, value)
            if token.text in ("break", "continue"):
                self.lexer.take()
                return ast.Break(token.span) if token.text == "break" else ast.Continue(token.span)
        target = self.expression()
        if not self.at(*ASSIGNMENTS):
            return ast.ExprStmt(target.span, target)
        operator = self.lexer.take()
        if isinstance(target, ast.Name) and target.name == "_" and operator.text == "=":
            value = self.expression()
            return ast.ExprStmt(target.span.to(value.span), value)
        if not isinstance(target, (ast.Var, ast.MapRef)):
            self.fail("only variables ($x) and maps (@x) can be assigned to", target.span)
        value = self._value(target)
        return ast.Assign(target.span.to(value.span), target, operator.text, value)

    def _value(self, target: ast.Expr) -> ast.Expr:
        value = self.expression()
        if self.at(*ASSIGNMENTS):
            found = self.lexer.peek()
            self.fail("an assignment has no value", found.span, "write two statements")
        return value

    def _let(self) -> ast.Stmt:
        keyword = self.lexer.take()
        variable = self.lexer.take()
        if variable.kind != "var":
            self.fail(
                f"expected a variable after 'let', found {variable.describe()}", variable.span, "write let $x = 1;"
            )
        target = ast.Var(variable.span, variable.text)
        declared = self.type_name() if self.accept(":") else None
        value = self._value(target) if self.accept("=") else None
        end = value.span if value else declared.span if declared else target.span
        return ast.Let(keyword.span.to(end), target, declared, value)
