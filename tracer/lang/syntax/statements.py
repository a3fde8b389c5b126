"""The parser of statements and blocks.

A fault in a statement is recorded and the parser goes on after the next `;` or before the closing `}`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.dataclass import replace
from tracer.errors import Diagnostic, Fault, Source, Span
from tracer.lang.syntax import ast
from tracer.lang.syntax.expressions import MAX_DIAGNOSTICS, ExpressionParser
from tracer.lang.syntax.lexer import Token

ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
MAX_BLOCKS = 32
"""How deep blocks may nest."""


class TooManyFaults(Exception):
    """Enough faults were found."""


class StatementParser(ExpressionParser):
    """Statements; `parser.Parser` adds clauses."""

    def __init__(self, source: Source, params: Sequence[str]) -> None:
        super().__init__(source, params)
        self._blocks = 0
        self.swallowed = False

    def record(self, diagnostic: Diagnostic) -> None:
        """Notes a fault that the parser goes on after; raises `TooManyFaults` when there are enough."""
        self.diagnostics.append(diagnostic)
        if len(self.diagnostics) >= MAX_DIAGNOSTICS:
            raise TooManyFaults

    def block(self) -> tuple[tuple[ast.Stmt, ...], Span]:
        """`{ … }` and the span of its closing brace."""
        opening = self.lexer.take()
        self._blocks += 1
        statements: list[ast.Stmt] = []
        try:
            if self._blocks > MAX_BLOCKS:
                self.record(
                    Diagnostic("blocks are nested too deeply", opening.span, f"at most {MAX_BLOCKS} levels")
                )
                raise TooManyFaults  # what follows is the same fault again
            while True:
                try:
                    if self.next_is("}"):
                        return tuple(statements), self.lexer.take().span
                    if self.lexer.peek().kind == "end":
                        break
                    statement = self._statement()
                    if statement is not None:
                        statements.append(statement)
                except Fault as fault:
                    self.record(fault.diagnostic)
                    self.swallowed = self.swallowed or fault.diagnostic.message.endswith("is not closed")
                    self._skip_statement()
            if not self.swallowed:
                self.record(Diagnostic("the block is not closed", opening.span, "a '}' is missing"))
            return tuple(statements), self.lexer.peek().span
        finally:
            self._blocks -= 1

    def block_expression(self) -> ast.Expr:
        opening = self.lexer.peek()
        outer, self._predicate = self._predicate, False
        try:
            body, end = self.block()
        finally:
            self._predicate = outer
        return self._deeper(valued(opening.span.to(end), body))

    def if_expression(self) -> ast.Expr:
        whole = self._if()
        value = _value_of(whole)
        if value is None:
            self.fail("this if has no value on both sides", whole.span, "write if (c) { a } else { b }, without a ;")
        return self._deeper(value)

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
                if depth == 0 and not self.next_is_quietly(";"):
                    return
            elif token.text == ";" and depth == 0:
                return

    def next_is_quietly(self, text: str) -> bool:
        """`next_is`, where a fault in the next token does not matter."""
        try:
            return self.next_is(text)
        except Fault:
            return False

    def body(self, what: str) -> tuple[ast.Stmt, ...]:
        """The block behind `what`."""
        if not self.next_is("{"):
            token = self.lexer.peek()
            self.fail(f"expected '{{' after {what}, found {token.describe()}", token.span, "a body always needs braces")
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
        if self.next_is("}"):
            return replace(statement, last=True) if isinstance(statement, ast.ExprStmt) else statement
        if not self.accept(";"):
            following = self.lexer.peek()
            if following.kind == "end":
                return statement  # the block says that its brace is missing, which is the one mistake
            after = Span(statement.span.end, statement.span.end + 1)
            if following.kind == "op" and following.text in (")", "]", ",", ":"):
                after = following.span
            from tracer.lang.syntax import slips

            hint = slips.hint_after(statement, following.kind) or slips.hint_at(self.source.text, following.span.start)
            self.fail(f"expected ';' after the statement, found {following.describe()}", after, hint)
        return statement

    def _compound(self, token: Token) -> ast.Stmt | None:
        """A statement that ends with a block and needs no `;`."""
        if token.text == "if":
            return self._if()
        if token.text == "while":
            self.lexer.take()
            condition = self.expression()
            body = self.body("the condition of while")
            return ast.While(token.span.to(condition.span), condition, body)
        if token.text == "unroll":
            self.lexer.take()
            count = self.expression()
            body = self.body("the count of unroll")
            return ast.Unroll(token.span.to(count.span), count, body)
        if token.text == "for":
            return self._for()
        if token.text == "else":
            self.fail("'else' without an 'if' before it", token.span)
        return None

    def _if(self) -> ast.Stmt:
        keyword = self.lexer.take()
        condition = self.expression()
        then = self.body("the condition of if")
        otherwise: tuple[ast.Stmt, ...] = ()
        if self.accept("else"):
            if self.next_is("if"):
                self._blocks += 1
                try:
                    if self._blocks > MAX_BLOCKS:
                        self.fail("too many 'else if' in a row", self.lexer.peek().span, f"at most {MAX_BLOCKS}")
                    otherwise = (self._if(),)
                finally:
                    self._blocks -= 1
            else:
                otherwise = self.body("else")
        return ast.If(keyword.span.to(condition.span), condition, then, otherwise)

    def _for(self) -> ast.Stmt:
        keyword = self.lexer.take()
        opening = self.accept("(")
        variable = self.lexer.take()
        if variable.kind != "var":
            self._skip_to_body()
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
            return ast.ForRange(keyword.span.to(end), target, start, stop, self.body("the range"))
        if not isinstance(start, ast.MapRef) or start.key:
            self.fail(
                "for goes over a map or a range", start.span, "write for ($kv : @map) { … } or for ($i : 0..10) { … }"
            )
        end = self.expect(")", "after the map").span if opening else start.span
        return ast.ForMap(keyword.span.to(end), target, start, self.body("the map"))

    def _skip_to_body(self) -> None:
        """Leaves out the head of a loop that is written in another way, its semicolons with it."""
        text, start = self.source.text, self.lexer.here()
        brace = text.find("{", start)
        if brace >= 0 and "}" not in text[start:brace]:
            self.lexer.seek(brace)

    def _simple(self, token: Token) -> ast.Stmt:
        """A statement that ends with `;`."""
        if token.kind == "keyword":
            if token.text == "let":
                return self._let()
            if token.text == "return":
                self.lexer.take()
                value = None if self.next_is(";", "}") else self.expression()
                return ast.Return(token.span.to(value.span) if value else token.span, value)
            if token.text in ("break", "continue"):
                self.lexer.take()
                return ast.Break(token.span) if token.text == "break" else ast.Continue(token.span)
        target = self.expression()
        if not self.next_is(*ASSIGNMENTS):
            return ast.ExprStmt(target.span, target)
        operator = self.lexer.take()
        if isinstance(target, ast.Name) and target.name == "_" and operator.text == "=":
            value = self.expression()
            return ast.ExprStmt(target.span.to(value.span), value, discarded=True)
        if not isinstance(target, (ast.Var, ast.MapRef)):
            from tracer.lang.syntax import slips

            what = "only variables ($x) and maps (@x) can be assigned to"
            self.fail(what, target.span, slips.hint_for_target(target))
        value = self._value(target)
        return ast.Assign(target.span.to(value.span), target, operator.text, value)

    def _value(self, target: ast.Expr) -> ast.Expr:
        value = self.expression()
        if self.next_is(*ASSIGNMENTS):
            sign = self.lexer.peek()
            self.fail("an assignment has no value", sign.span, "write two statements")
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


def valued(span: Span, body: tuple[ast.Stmt, ...]) -> ast.BlockExpr:
    """A block as an expression: its value is what stands last in it without a `;`."""
    value = _value_of(body[-1]) if body else None
    return ast.BlockExpr(span, body if value is None else body[:-1], value)


def _value_of(node: ast.Stmt) -> ast.Expr | None:
    match node:
        case ast.ExprStmt(last=True):
            return node.expr
        case ast.Block():
            block = valued(node.span, node.body)
            return None if block.value is None else replace(block, callee=node.callee)
        case ast.If(otherwise=(_, *_)):
            then, otherwise = valued(node.span, node.then), valued(node.span, node.otherwise)
            if then.value is not None and otherwise.value is not None:
                return ast.Ternary(node.span, node.condition, then, otherwise, "if")
    return None
