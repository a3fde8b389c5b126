"""Statements but assignments and calls: blocks, scopes, control flow."""

from __future__ import annotations

from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.builtins import FUNCTIONS, UNROLL_MOST
from tracer.lang.check.effects import EffectChecker
from tracer.lang.convert import convert
from tracer.lang.syntax import ast
from tracer.lang.types import INT64, IntType, TupleType, Type

UNROLLED_MOST = 5000
"""How many statements all `unroll` of a clause may make together."""


class StatementChecker(EffectChecker):
    """One method per kind of statement. A statement may become several (`unroll`) or none."""

    def block(self, nodes: tuple[ast.Stmt, ...]) -> tuple[typed.Stmt, ...]:
        """The statements of a block, in a scope of their own."""
        self.scopes.append({})
        try:
            return self.statements(nodes)
        finally:
            self.scopes.pop()

    def statements(self, nodes: tuple[ast.Stmt, ...]) -> tuple[typed.Stmt, ...]:
        """Statements in the scope that is open."""
        return tuple(statement for node in nodes for statement in self.statement(node))

    def statement(self, node: ast.Stmt) -> tuple[typed.Stmt, ...]:
        """What one statement becomes."""
        match node:
            case ast.Assign():
                return self.assign(node)
            case ast.Let():
                return self.let(node)
            case ast.ExprStmt():
                return self._expression(node)
            case ast.Block():
                return self.block(node.body)
            case ast.If():
                condition = self.condition(node.condition, "the condition of if")
                then, otherwise = self.block(node.then), self.block(node.otherwise)
                return () if condition is None else (typed.If(node.span, condition, then, otherwise),)
            case ast.While():
                condition = self.condition(node.condition, "the condition of while")
                body = self._loop(node.body)
                return () if condition is None else (typed.While(node.span, condition, body),)
            case ast.Unroll():
                return self._unroll(node)
            case ast.ForRange():
                return self._for_range(node)
            case ast.ForMap():
                return self._for_map(node)
            case ast.Return():
                if node.value is not None:
                    self.integer(node.value, "the value of return")
                return (typed.Return(node.span),)
            case ast.Break():
                return (typed.Break(node.span),) if self._in_loop("break", node.span) else ()
            case ast.Continue():
                return (typed.Continue(node.span),) if self._in_loop("continue", node.span) else ()
        raise AssertionError(f"unknown statement {type(node).__name__}")

    # --- expressions as statements

    def _expression(self, node: ast.ExprStmt) -> tuple[typed.Stmt, ...]:
        expr = node.expr
        if isinstance(expr, ast.Name) and expr.name in FUNCTIONS and FUNCTIONS[expr.name].least == 0:
            expr = ast.Call(expr.span, expr.name, (), expr.span)
        if isinstance(expr, ast.Call) and expr.name in FUNCTIONS and FUNCTIONS[expr.name].kind == "statement":
            return self.effect(expr)
        if isinstance(expr, ast.Ternary) and (_acts(expr.then) or _acts(expr.otherwise)):
            return self._choice(expr)
        value = self.expr(expr)
        if value is None:
            return ()
        if isinstance(value, typed.MapIncr):
            assert isinstance(value.type, IntType)
            return (
                typed.MapAdd(node.span, value.map, value.key, typed.IntLit(value.type, value.span, self._step(value))),
            )
        if not isinstance(value, typed.VarIncr) and not node.discarded:
            self.warn("the value is not used", node.span, "assign it, or print it with print()")
        return (typed.ExprStmt(node.span, value),)

    def _step(self, value: typed.MapIncr) -> int:
        assert isinstance(value.type, IntType)
        return value.delta if value.type.signed else value.delta % (1 << value.type.bits)

    def _choice(self, node: ast.Ternary) -> tuple[typed.Stmt, ...]:
        """`condition ? print(1) : print(2)` as a statement."""
        condition = self.condition(node.condition, "the condition of '?'")
        then = self._expression(ast.ExprStmt(node.then.span, node.then))
        otherwise = self._expression(ast.ExprStmt(node.otherwise.span, node.otherwise))
        return () if condition is None else (typed.If(node.span, condition, then, otherwise),)

    # --- loops

    def _in_loop(self, word: str, span: Span) -> bool:
        if self.loops and self.loops[-1] == "loop":
            return True
        if self.loops:
            self.error(
                f"{word} is not possible in unroll", span, "unroll repeats its statements, it is no loop: use for"
            )
        else:
            self.error(f"{word} outside a loop", span, "return ends the clause")
        return False

    def _loop(self, body: tuple[ast.Stmt, ...]) -> tuple[typed.Stmt, ...]:
        self.loops.append("loop")
        try:
            return self.block(body)
        finally:
            self.loops.pop()

    def _unroll(self, node: ast.Unroll) -> tuple[typed.Stmt, ...]:
        count = self.constant(node.count, "the count of unroll")
        if count is None:
            return ()
        if not 1 <= count <= UNROLL_MOST:
            self.error(f"unroll takes a count from 1 to {UNROLL_MOST}, not {count}", node.count.span)
            return ()
        statements: list[typed.Stmt] = []
        self.loops.append("unroll")
        try:
            for _ in range(count):
                copy = self.block(node.body)
                self.unrolled += max(1, len(node.body))
                if self.unrolled > UNROLLED_MOST:
                    self.error(
                        f"unroll makes more than {UNROLLED_MOST} statements", node.span, "use for ($i : 0..n) { … }"
                    )
                    break
                statements.extend(copy)
        finally:
            self.loops.pop()
        return tuple(statements)

    def _loop_variable(self, node: ast.ForRange | ast.ForMap, type: Type) -> int:
        """Declares the variable of a loop in the scope that is open; gives its slot."""
        outer = self.lookup(node.target.name)
        if outer is not None:
            self.error(
                f"{node.target.name} is a variable already, from {self.at(outer.span)}",
                node.target.span,
                "use another name",
            )
        variable = self.declare(node.target.name, node, node.target.span)
        self.found.variable(variable.key).add(type, node.target.span)
        return variable.slot

    def _for_range(self, node: ast.ForRange) -> tuple[typed.Stmt, ...]:
        start = self.integer(node.start, "the start of the range")
        stop = self.integer(node.stop, "the end of the range")
        self.scopes.append({})
        try:
            slot = self._loop_variable(node, INT64)
            body = self._loop(node.body)
        finally:
            self.scopes.pop()
        if start is None or stop is None:
            return ()
        return (typed.ForRange(node.span, slot, convert(start, INT64), convert(stop, INT64), body),)

    def _for_map(self, node: ast.ForMap) -> tuple[typed.Stmt, ...]:
        name, span = node.map.name, node.map.span
        pair = self._pair(node)
        if pair is None:
            return ()
        if self.unit.kind == "probe":
            self.error(
                f"for over {name} is not possible in a probe: the map changes under it",
                span,
                "go over it in END or in interval:s:1 { … }",
            )
        self.scopes.append({})
        try:
            slot = self._loop_variable(node, pair)
            body = self._loop(node.body)
        finally:
            self.scopes.pop()
        return (typed.ForMap(node.span, slot, name, body),)

    def _pair(self, node: ast.ForMap) -> TupleType | None:
        """The type of the loop's variable: key and value."""
        name, span = node.map.name, node.map.span
        if not self.defined(node.map):
            return None
        facts = self.known.maps[name]
        if facts.key == ():
            self.error(f"{name} has no keys to go over", span, f"{name} is its one value")
            return None
        if facts.kind in ("hist", "lhist"):
            self.error(f"{name} is a histogram, which has no single values", span, f"print({name}) prints all of it")
            return None
        value = self.map_type(name)
        if facts.key is None or value is None:
            return None
        return TupleType((facts.key[0] if len(facts.key) == 1 else TupleType(facts.key), value))


def _acts(node: ast.Expr) -> bool:
    return isinstance(node, ast.Call) and node.name in FUNCTIONS and FUNCTIONS[node.name].kind == "statement"
