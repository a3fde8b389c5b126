"""The parser of expressions: precedence climbing over the operators of C.

`a & b == c` is `a & (b == c)`, as in C and bpftrace. In a predicate a `/` before `{` ends the expression; everywhere
else it divides.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from tracer.dataclass import replace
from tracer.errors import Fault, Source, Span
from tracer.lang.syntax import ast
from tracer.lang.syntax.cursor import TAGS, Cursor
from tracer.lang.syntax.lexer import Token

PRECEDENCE = {
    "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, "<=": 8, ">": 8, ">=": 8,
    "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11,
}  # fmt: skip

TERNARY = 1
MAX_NESTING = 64
MAX_DEPTH = 128
"""How deep brackets and the tree may get (`a + b + c` is a tree two deep): later stages walk it recursively."""

MAX_DIAGNOSTICS = 20


class ExpressionParser(Cursor):
    """Expressions; `statements.StatementParser` adds statements."""

    # --- blocks, which `statements.StatementParser` reads

    @abstractmethod
    def block_expression(self) -> ast.Expr:
        """`{ …; value }`."""

    @abstractmethod
    def if_expression(self) -> ast.Expr:
        """`if (condition) { …; value } else { …; value }`."""

    # --- expressions

    def predicate(self) -> ast.Expr:
        """The expression between two slashes; the closing slash stays."""
        self._predicate = True
        try:
            return self.expression()
        finally:
            self._predicate = False

    def expression(self, least: int = TERNARY) -> ast.Expr:
        """An expression whose operators bind at least as tightly as `least`."""
        self._nesting += 1
        try:
            if self._nesting > MAX_NESTING:
                self._too_deep(self.lexer.peek().span)
            return self._climb(least)
        finally:
            self._nesting -= 1

    def _too_deep(self, span: Span) -> NoReturn:
        self.fail("the expression is nested too deeply", span, "use scratch variables for its parts")

    def _climb(self, least: int) -> ast.Expr:
        left = self._prefix()
        depth = self._depth
        while True:
            token = self.lexer.peek()
            power = PRECEDENCE.get(token.text) if token.kind == "op" else None
            if power is not None and power >= least and not self._ends_predicate(token):
                self.lexer.take()
                right = self.expression(power + 1)
                left = ast.Binary(left.span.to(right.span), token.text, left, right)
            elif token.kind == "op" and token.text == "?" and least <= TERNARY:
                self.lexer.take()
                if self.accept(":"):
                    right = self.expression(TERNARY)
                    left = ast.Elvis(left.span.to(right.span), left, right)
                    depth = max(depth, self._depth) + 1
                    continue
                then = self.enclosed()
                depth = max(depth, self._depth)
                self.expect(":", "between the two values of '?'")
                right = self.expression(TERNARY)
                left = ast.Ternary(left.span.to(right.span), left, then, right)
            else:
                break
            depth = max(depth, self._depth) + 1
            if depth > MAX_DEPTH:
                self._too_deep(left.span)
        self._depth = depth
        return left

    def _ends_predicate(self, slash: Token) -> bool:
        if not self._predicate or slash.text != "/":
            return False
        self.lexer.take()
        follows = self.lexer.peek()
        self.lexer.seek(slash.span.start)
        ends = follows.kind == "end" or (follows.kind == "op" and follows.text == "{")
        return ends or self.begins_clause(follows)

    def enclosed(self) -> ast.Expr:
        """An expression inside brackets, where a slash always divides."""
        outer, self._predicate = self._predicate, False
        try:
            return self.expression()
        finally:
            self._predicate = outer

    def _prefix(self) -> ast.Expr:
        token = self.lexer.peek()
        if token.kind == "keyword" and token.text == "if":
            return self.if_expression()
        if token.kind == "keyword" and token.text == "comptime":
            self.lexer.take()
            operand = self._operand()
            return self._deeper(ast.Comptime(token.span.to(operand.span), operand))
        if token.kind != "op" or token.text == "(":
            return self._postfix(self._primary())
        if token.text in ("-", "+", "!", "~", "*"):
            self.lexer.take()
            operand = self._operand()
            return self._deeper(ast.Unary(token.span.to(operand.span), token.text, operand))
        if token.text in ("++", "--"):
            self.lexer.take()
            operand = self._operand()
            return self._deeper(self._increment(token, operand, prefix=True))
        if token.text == "&":
            self.lexer.take()
            operand = self._primary()
            span = token.span.to(operand.span)
            if isinstance(operand, ast.MapRef) and operand.key:
                self.fail("a key of a map has no address", span, f"write &{operand.name}")
            if not isinstance(operand, (ast.Var, ast.MapRef)):
                what = "'&' takes the address of a variable or a map"
                self.fail(what, span, "write &$x or &@x; a pointer + 8 is an address, too")
            return self._deeper(ast.Unary(span, "&", operand))
        if token.text == "{" and not self._predicate:
            return self.block_expression()
        self.fail(f"expected an expression, found {token.describe()}", token.span)

    def _operand(self) -> ast.Expr:
        """The operand of a prefix operator."""
        self._nesting += 1
        try:
            if self._nesting > MAX_NESTING:
                self._too_deep(self.lexer.peek().span)
            return self._prefix()
        finally:
            self._nesting -= 1

    def _deeper(self, expr: ast.Expr) -> ast.Expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._too_deep(expr.span)
        return expr

    def _increment(self, token: Token, target: ast.Expr, prefix: bool) -> ast.Expr:
        if not isinstance(target, (ast.Var, ast.MapRef)):
            self.fail(
                f"'{token.text}' needs a variable or a map", target.span, "write $x++ or @x++, or add 1 with '+ 1'"
            )
        return ast.IncDec(
            token.span.to(target.span) if prefix else target.span.to(token.span), token.text, prefix, target
        )

    def _primary(self) -> ast.Expr:
        self._depth = 0
        token = self.lexer.take()
        span = token.span
        if token.kind == "int":
            assert isinstance(token.value, int)
            return ast.IntLit(span, token.value)
        if token.kind == "string":
            assert isinstance(token.value, bytes)
            return ast.StrLit(span, token.value)
        if token.kind == "var":
            return ast.Var(span, token.text)
        if token.kind == "map":
            return self._map(token)
        if token.kind == "param":
            assert isinstance(token.value, int)
            text = self.params[token.value - 1] if token.value <= len(self.params) else None
            return ast.Param(span, token.value, text)
        if token.kind == "paramcount":
            return ast.IntLit(span, len(self.params))
        typeof = token.text == "typeof" and self.next_is("(")
        if typeof or token.text in TAGS or self.at_name_of_type(token):
            self.lexer.seek(span.start)
            type = self.type_name()
            return ast.TypeExpr(type.span, type)
        if token.kind == "name" or (token.text == "config" and (self.next_is("(") or self.next_is("."))):
            if self.next_is("("):
                return self._call(token)
            if self.next_is("*") and (pointer := self.pointer_type(span.start)) is not None:
                return ast.TypeExpr(pointer.span, pointer)
            return self.defined(token) if token.text in self.defines else ast.Name(span, token.text)
        if token.text in ("true", "false") and token.kind == "keyword":
            return ast.BoolLit(span, token.text == "true")
        if token.text == "(" and token.kind == "op":
            return self._parenthesis(token)
        self._no_operand(token)

    def defined(self, token: Token) -> ast.Expr:
        """The value of a `#define`, an expression of its own. Inside, the macro's own name is a plain one."""
        from tracer.lang.syntax.c.directives import placed_at

        body = self.defines[token.text]
        inner = type(self)(Source(body), self.params)
        inner.defines = {name: text for name, text in self.defines.items() if name != token.text}
        inner.typedefs, inner._nesting = self.typedefs, self._nesting + 1
        inner.called, inner.named = self.called, self.named
        try:
            expr = inner.expression()
            whole = inner.lexer.peek().kind == "end"
        except Fault:
            whole = False
        if not whole:
            self.fail(f"'{token.text}' is not an expression", token.span, f"#define {token.text} {body}".strip())
        self._depth = inner._depth
        return placed_at(expr, token.span)

    def _no_operand(self, token: Token) -> NoReturn:
        if token.kind == "keyword":
            from tracer.lang import unsupported

            entry = unsupported.STATEMENTS.get(token.text)
            if entry is not None:
                message, hint = unsupported.phrase(f"'{token.text}'", entry)
                self.fail(message, token.span, hint)
        self.fail(f"expected an expression, found {token.describe()}", token.span)

    def _map(self, token: Token) -> ast.Expr:
        if not self.next_is("["):
            return ast.MapRef(token.span, token.text, (), token.span)
        opening = self.lexer.take()
        if self.next_is("]"):
            self.fail(
                "the map's key is empty",
                opening.span.to(self.lexer.take().span),
                f"write {token.text} without brackets",
            )
        key = self._list("]", f"after the key of {token.text}")
        closing = self.lexer.take()
        return self._deeper(ast.MapRef(token.span.to(closing.span), token.text, key, token.span))

    def _call(self, name: Token) -> ast.Expr:
        self.lexer.take()
        args = () if self.next_is(")") else self._list(")", f"after the arguments of {name.text}()", name.text)
        closing = self.lexer.take()
        return self._deeper(ast.Call(name.span.to(closing.span), name.text, args, name.span))

    def _list(self, closing: str, where: str, word: str = "") -> tuple[ast.Expr, ...]:
        """Expressions with commas between them; `closing` stays the next token."""
        items, depth = [self.enclosed()], self._depth
        while self.accept(","):
            if self.next_is(closing):
                break
            items.append(self.enclosed())
            depth = max(depth, self._depth)
        if not self.next_is(closing):
            token = self.lexer.peek()
            self.fail(
                f"expected ',' or '{closing}' {where}, found {token.describe()}", token.span,
                self._slip(word),
            )  # fmt: skip
        self._depth = depth
        return tuple(items)

    def _comparison_hint(self) -> str | None:
        return "== compares; an assignment is a statement of its own" if self.next_is("=") else None

    def _slip(self, word: str) -> str | None:
        """The hint for what is written behind a word that means something elsewhere."""
        from tracer.lang.syntax.slips import WORDS

        return WORDS.get(word) or self._comparison_hint()

    def _parenthesis(self, opening: Token) -> ast.Expr:
        cast_to = self._cast_type()
        if cast_to is not None:
            operand = self._operand()
            return self._deeper(ast.Cast(opening.span.to(operand.span), cast_to, operand))
        if self.next_is(")"):
            span = opening.span.to(self.lexer.take().span)
            self.fail("an empty tuple holds nothing", span, "a tuple has at least one value: (1,)")
        name = self.lexer.peek()
        if name.kind == "name" and self._names_field():
            return self._record(opening)
        first, depth = self.enclosed(), self._depth
        if not self.next_is(","):
            if not self.next_is(")"):
                token = self.lexer.peek()
                hint = self._slip(first.name if isinstance(first, ast.Name) else "")
                self.fail(f"expected ')' to close '(', found {token.describe()}", token.span, hint)
            closing = self.lexer.take()
            return replace(first, span=opening.span.to(closing.span))
        items = [first]
        while self.accept(","):
            if self.next_is(")"):
                break
            items.append(self.enclosed())
            depth = max(depth, self._depth)
        closing = self.expect(")", "to close the tuple")
        self._depth = depth
        return self._deeper(ast.TupleExpr(opening.span.to(closing.span), tuple(items)))

    def _cast_type(self) -> ast.TypeName | None:
        """The type of a cast, with its closing bracket taken; None, and nothing taken, where it is no cast."""
        if self.lexer.peek().kind != "name" and not self.next_is(*TAGS):
            return None
        from tracer.lang.syntax.type_names import cast_type

        return cast_type(self)

    def pointer_type(self, start: int) -> ast.TypeName | None:
        """See `type_names.pointer_type`."""
        from tracer.lang.syntax.type_names import pointer_type

        return pointer_type(self, start)

    def type_name(self) -> ast.TypeName:
        """The name of a type."""
        from tracer.lang.syntax.type_names import type_name

        return type_name(self)

    def _names_field(self) -> bool:
        name = self.lexer.take()
        named = self.next_is("=")
        self.lexer.seek(name.span.start)
        return named

    def _record(self, opening: Token) -> ast.Expr:
        names: list[str] = []
        items: list[ast.Expr] = []
        depth = 0
        while not self.next_is(")"):
            name = self.lexer.take()
            if name.kind != "name":
                self.fail(f"expected the name of a field, found {name.describe()}", name.span, "write (a=1, b=2)")
            if name.text in names:
                self.fail(f"the record has two fields '{name.text}'", name.span)
            self.expect("=", f"after the field {name.text}")
            names.append(name.text)
            items.append(self.enclosed())
            depth = max(depth, self._depth)
            if not self.accept(","):
                break
        closing = self.expect(")", "to close the record")
        self._depth = depth
        return self._deeper(ast.TupleExpr(opening.span.to(closing.span), tuple(items), tuple(names)))

    def _postfix(self, expr: ast.Expr) -> ast.Expr:
        while True:
            token = self.lexer.peek()
            if token.kind != "op":
                return expr
            if token.text in (".", "->"):
                self.lexer.take()
                if isinstance(expr, ast.IntLit) and token.text == "." and (digits := self.lexer.digits()):
                    whole = expr.span.to(Span(token.span.start, self.lexer.position))
                    expr = ast.DecimalLit(whole, f"{self.lexer.text[expr.span.start : expr.span.end]}.{digits}")
                    continue
                field = self.lexer.take()
                if field.kind not in ("name", "int", "keyword"):
                    self.fail(f"expected a name or a number after '{token.text}', found {field.describe()}", field.span)
                expr = self._deeper(ast.Field(expr.span.to(field.span), expr, field.text))
            elif token.text == "[":
                depth = self._depth
                self.lexer.take()
                index = self.enclosed()
                closing = self.expect("]", "after the index")
                self._depth = max(depth, self._depth)
                expr = self._deeper(ast.Index(expr.span.to(closing.span), expr, index))
            elif token.text in ("++", "--"):
                self.lexer.take()
                expr = self._deeper(self._increment(token, expr, prefix=False))
            else:
                return expr
