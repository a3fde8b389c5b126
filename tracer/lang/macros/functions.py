"""The call of a function → the block that it stands for, in the syntax tree.

Parameters, variables and the result are variables of the block alone. A `return` in the middle becomes an assignment of
the result; what follows it moves to where it does not run: into the other branch of the `if` that returns, or behind a
test of a flag. A loop that returns is left by `break`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tracer.dataclass import replace
from tracer.errors import Diagnostic, Fault
from tracer.lang.syntax import ast
from tracer.lang.walk import rewrite, walk

_INTEGER = re.compile(r"u?int(8|16|32|64)")


def block_of(
    function: ast.FunctionDefinition, args: Sequence[ast.Expr | None], number: int, node: ast.Expr | None = None
) -> ast.BlockExpr:
    """The block for one call. `number` tells its variables from those of other calls; an argument of None is empty."""
    body = _Body(function, number)
    lets = [
        ast.Let(param.span if arg is None else arg.span, body.renamed(param), type, _converted(type, arg))
        for param, type, arg in zip(function.params, function.types, args, strict=True)
    ]
    block = body.block(tuple(lets))
    return block if node is None else replace(block, span=node.span)


def is_void(function: ast.FunctionDefinition) -> bool:
    """Whether a call has no value."""
    return function.result.name == "void" and not function.result.suffixes


class _Body:
    """The body of a function at one call."""

    def __init__(self, function: ast.FunctionDefinition, number: int) -> None:
        self.function = function
        self.number = number
        self.result = self._hidden("result")
        self.flag = self._hidden("returned")
        self.flagged = False
        """Whether something tests if the function has returned."""

    def _hidden(self, name: str) -> ast.Var:
        """A variable that no text can name: numbers do not begin with 0."""
        return ast.Var(self.function.head, f"${self.function.name}.{name}.0{self.number}")

    def renamed(self, variable: ast.Var) -> ast.Var:
        """A variable of the function under its name in this call."""
        return replace(variable, name=f"${self.function.name}.{variable.name[1:]}.{self.number}")

    def block(self, lets: tuple[ast.Stmt, ...]) -> ast.BlockExpr:
        """The whole block."""
        function = self.function
        body = tuple([rewrite(statement, self._changed) for statement in function.body])
        callee = f"the function {function.name}()"
        if is_void(function):
            statements = self._without_returns(body)
            return ast.BlockExpr(function.head, (*lets, *self._flag(), *_checked(statements)), None, callee)
        if not _returns(body):
            what = f"{function.name}() can end without a return"
            raise Fault(Diagnostic(what, function.head, f"its result is {function.result.name}: return one at the end"))
        *before, last = body
        if isinstance(last, ast.Return) and not any(map(_has_return, before)):
            result = ast.Let(last.span, self.result, function.result, last.value)
            return ast.BlockExpr(function.head, (*lets, *_checked((*before, result))), self.result, callee, acts=True)
        statements = self._without_returns(body)
        result = ast.Let(function.result.span, self.result, function.result, None)
        statements = (result, *self._flag(), *_checked(statements))
        return ast.BlockExpr(function.head, (*lets, *statements), self.result, callee, acts=True)

    def _changed(self, node: Any) -> Any:
        name, result, void = self.function.name, self.function.result, is_void(self.function)
        match node:
            case ast.Var():
                return self.renamed(node)
            case ast.Return(span=span, value=None) if not void:
                raise Fault(Diagnostic(f"{name}() returns a value", span, f"its result is {result.name}: return one"))
            case ast.Return(span=span, value=value) if void and value is not None:
                raise Fault(Diagnostic(f"{name}() is void, and returns no value", span, "write return;"))
            case ast.Return(value=value):
                return replace(node, value=_converted(result, value))
        return node

    def _flag(self) -> tuple[ast.Stmt, ...]:
        head = self.function.head
        return (ast.Assign(head, self.flag, "=", ast.BoolLit(head, False)),) if self.flagged else ()

    def _without_returns(self, body: Sequence[ast.Stmt], loop: bool = False) -> tuple[ast.Stmt, ...]:
        """Writes the statements without `return`. `loop`: they stand in a loop, which has to be left."""
        result: list[ast.Stmt] = []
        for index, statement in enumerate(body):
            rest = body[index + 1 :]
            match statement:
                case ast.Return(span=span, value=value):
                    if value is not None:
                        result.append(ast.Assign(span, self.result, "=", value))
                    if loop or self.flagged:
                        result.append(ast.Assign(span, self.flag, "=", ast.BoolLit(span, True)))
                    return (*result, ast.Break(span)) if loop else tuple(result)
                case _ if not _has_return(statement):
                    result.append(statement)
                    continue
                case ast.If(then=then, otherwise=otherwise) if not loop and _returns(then):
                    then, otherwise = self._without_returns(then), self._without_returns(_joined(otherwise, rest))
                    return (*result, replace(statement, then=then, otherwise=otherwise))
                case ast.If(then=then, otherwise=otherwise) if not loop and _returns(otherwise):
                    then, otherwise = self._without_returns(_joined(then, rest)), self._without_returns(otherwise)
                    return (*result, replace(statement, then=then, otherwise=otherwise))
            self.flagged = True
            span = statement.span
            result.append(self._inside(statement, loop))
            if loop:
                inner = isinstance(statement, (ast.While, ast.ForRange, ast.ForMap, ast.Unroll))
                result += [ast.If(span, self.flag, (ast.Break(span),), ())] if inner else []
                result += self._without_returns(rest, loop)
            elif rest:
                result.append(ast.If(span, ast.Unary(span, "!", self.flag), self._without_returns(rest), ()))
            return tuple(result)
        return tuple(result)

    def _inside(self, statement: ast.Stmt, loop: bool) -> ast.Stmt:
        """A statement that holds a `return`, without it."""
        match statement:
            case ast.If(then=then, otherwise=otherwise):
                then, otherwise = self._without_returns(then, loop), self._without_returns(otherwise, loop)
                return replace(statement, then=then, otherwise=otherwise)
            case ast.Unroll(span=span, body=body):
                again = ast.If(span, ast.Unary(span, "!", self.flag), self._without_returns(body), ())
                return replace(statement, body=(again,))
            case ast.Block(body=body):
                return replace(statement, body=self._without_returns(body, loop))
            case ast.While(body=body) | ast.ForRange(body=body) | ast.ForMap(body=body):
                return replace(statement, body=self._without_returns(body, True))
        return statement


def _converted(type: ast.TypeName, value: ast.Expr | None) -> ast.Expr | None:
    """A number as a parameter or a result of this type, cut as in C; a constant has to fit, and so does all else."""
    if value is None or isinstance(value, ast.IntLit) or type.suffixes or not _INTEGER.fullmatch(type.name):
        return value
    return ast.Cast(value.span, type, value)


def _checked(statements: tuple[ast.Stmt, ...]) -> tuple[ast.Stmt, ...]:
    """The statements; raises a fault for a `return` that is left, which stands inside an expression."""
    for node in (node for statement in statements for node in walk(statement)):
        if isinstance(node, ast.Return):
            what = "return is not possible inside an expression"
            raise Fault(Diagnostic(what, node.span, "assign the value, and return it in a statement of its own"))
    return statements


def _joined(side: tuple[ast.Stmt, ...], rest: Sequence[ast.Stmt]) -> tuple[ast.Stmt, ...]:
    """One side of an `if` and what follows the `if`. Variables that begin in the side stay in a block of their own."""
    names = any(isinstance(statement, (ast.Let, ast.Assign)) for statement in side)
    return (ast.Block(side[0].span.to(side[-1].span), side), *rest) if names and rest else (*side, *rest)


def _has_return(node: ast.Stmt) -> bool:
    return any(isinstance(part, ast.Return) for part in walk(node))


def _returns(body: Sequence[ast.Stmt]) -> bool:
    """Whether each way through the statements ends in a `return`."""
    for statement in body:
        match statement:
            case ast.Return():
                return True
            case ast.If(then=then, otherwise=otherwise) if _returns(then) and _returns(otherwise):
                return True
            case ast.Block(body=inner) if _returns(inner):
                return True
    return False
