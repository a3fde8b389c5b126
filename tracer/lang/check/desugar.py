"""Shorthands, rewritten in the syntax tree before any type is looked at.

* A function without arguments may stand without its parentheses: `@ = count;`.
* `value ?: other` is `{ let $value = value; $value ? $value : other }`.
* `condition ? print(1) : print(2);` is an `if`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tracer.dataclass import replace
from tracer.lang.builtins.registry import FUNCTIONS, VALUES
from tracer.lang.check.expressions.calls import is_argument
from tracer.lang.syntax import ast
from tracer.lang.walk import rewrite


def desugared(program: ast.Program) -> ast.Program:
    """The program in fewer words."""
    numbers = count(1)

    def change(node: ast.Expr | ast.Stmt) -> ast.Expr | ast.Stmt:
        return _node(node, numbers)

    clauses = []
    for clause in program.clauses:
        predicate = None if clause.predicate is None else rewrite(clause.predicate, change)
        body = tuple(rewrite(statement, change) for statement in clause.body)
        by = None if clause.by is None else rewrite(clause.by, change)
        clauses.append(replace(clause, predicate=predicate, body=body, by=by))
    return replace(program, clauses=tuple(clauses))


def _node(node: ast.Expr | ast.Stmt, numbers: Iterator[int]) -> ast.Expr | ast.Stmt:
    match node:
        case ast.Name() if _is_function(node.name) and FUNCTIONS[node.name].least == 0:
            return ast.Call(node.span, node.name, (), node.span)
        case ast.Elvis(value=ast.Var() | ast.IntLit() | ast.StrLit() | ast.Param() as value):
            return ast.Ternary(node.span, value, value, node.otherwise, "'?:'")
        case ast.Elvis():
            name = ast.Var(node.value.span, f"$?.{next(numbers)}")
            choice = ast.Ternary(node.span, name, name, node.otherwise, "'?:'")
            return ast.BlockExpr(node.span, (ast.Let(node.value.span, name, None, node.value),), choice)
        case ast.ExprStmt(expr=ast.Ternary() as choice) if _acts(choice.then) or _acts(choice.otherwise):
            then, otherwise = (_node(ast.ExprStmt(arm.span, arm), numbers) for arm in (choice.then, choice.otherwise))
            assert isinstance(then, ast.Stmt) and isinstance(otherwise, ast.Stmt)
            return ast.If(choice.span, choice.condition, (then,), (otherwise,), "'?'")
    return node


def _is_function(name: str) -> bool:
    return not is_argument(name) and name not in VALUES and name in FUNCTIONS


def _acts(node: ast.Expr) -> bool:
    if not isinstance(node, ast.Call) or node.name not in FUNCTIONS:
        return False
    return FUNCTIONS[node.name].role == "statement" or FUNCTIONS[node.name].acts
