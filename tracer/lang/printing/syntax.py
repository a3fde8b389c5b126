"""The dump of the syntax tree, `-d ast`: a line for each statement, expressions fully bracketed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracer.lang.syntax import ast

INDENT = "  "


def print_ast(program: ast.Program) -> str:
    """The syntax tree, a line for each statement."""
    return "\n".join(_program(program)) + "\n"


def quoted(value: bytes) -> str:
    """A string constant on one line."""
    shown = repr(value.decode("utf-8", "backslashreplace"))
    body = shown[1:-1]
    if shown[0] == "'":
        body = body.replace('"', '\\"').replace("\\'", "'")
    return f'"{body}"'


def _program(program: ast.Program) -> Iterator[str]:
    for setting in program.config:
        yield f"config {setting.name} = {setting.value}"
    for map in program.maps:
        yield f"let {map.name} = {map.kind}({map.most})"
    for macro in program.macros:
        yield f"macro {macro.name}({_list(macro.params)})"
        yield from _body(macro.body, 1)
    for function in program.functions:
        params = [f"{each.name}: {_type(type)}" for each, type in zip(function.params, function.types, strict=True)]
        yield f"fn {function.name}({', '.join(params)}): {_type(function.result)}"
        yield from _body(function.body, 1)
    for index, clause in enumerate(program.clauses):
        yield f"clause {index}"
        for point in clause.points:
            yield f"{INDENT}{_point(point)}"
        if clause.predicate is not None:
            yield f"{INDENT}when {expression(clause.predicate)}"
        yield from _body(clause.body, 1)


def _point(point: ast.AttachPoint) -> str:
    fields = []
    for name in ("path", "provider", "name"):
        value = getattr(point, name)
        if value is not None:
            fields.append(f"{name}={value!r}")
    if point.offset:
        fields.append(f"offset={point.offset}")
    if point.address is not None:
        fields.append(f"address={point.address:#x}")
    if point.source is not None:
        fields.append(f"source={point.source!r} line={point.line}")
    if point.column:
        fields.append(f"column={point.column}")
    if point.period_ns:
        fields.append(f"period={point.period_ns}ns")
    return " ".join((point.kind, *fields))


def _body(statements: Iterable[ast.Stmt], depth: int) -> Iterator[str]:
    for statement in statements:
        yield from _statement(statement, depth)


def _statement(node: ast.Stmt, depth: int) -> Iterator[str]:
    pad = INDENT * depth
    match node:
        case ast.Assign():
            yield f"{pad}{expression(node.target)} {node.op} {expression(node.value)}"
        case ast.Let():
            declared = f": {_type(node.type)}" if node.type else ""
            value = f" = {expression(node.value)}" if node.value is not None else ""
            yield f"{pad}let {node.target.name}{declared}{value}"
        case ast.ExprStmt():
            yield f"{pad}{'_ = ' if node.discarded else ''}{expression(node.expr)}"
        case ast.Block():
            yield f"{pad}block"
            yield from _body(node.body, depth + 1)
        case ast.If():
            yield f"{pad}if {expression(node.condition)}"
            yield from _body(node.then, depth + 1)
            if node.otherwise:
                yield f"{pad}else"
                yield from _body(node.otherwise, depth + 1)
        case ast.While():
            yield f"{pad}while {expression(node.condition)}"
            yield from _body(node.body, depth + 1)
        case ast.Unroll():
            yield f"{pad}unroll {expression(node.count)}"
            yield from _body(node.body, depth + 1)
        case ast.ForRange():
            yield f"{pad}for {node.target.name} in {expression(node.start)}..{expression(node.stop)}"
            yield from _body(node.body, depth + 1)
        case ast.ForMap():
            yield f"{pad}for {node.target.name} in {node.map.name}"
            yield from _body(node.body, depth + 1)
        case ast.Return():
            yield f"{pad}return" + (f" {expression(node.value)}" if node.value is not None else "")
        case _:
            yield f"{pad}{type(node).__name__.lower()}"


def _list(nodes: Iterable[ast.Expr]) -> str:
    return ", ".join(map(expression, nodes))


def _type(node: ast.TypeName) -> str:
    suffixes = "".join("*" if count is None else f"[{count or ''}]" for count in node.suffixes)
    name = node.name if node.of is None else f"typeof({expression(node.of)})"
    return f"{name}{' ' if suffixes.startswith('*') else ''}{suffixes}"


def expression(node: ast.Expr) -> str:
    """An expression of the syntax tree, bracketed."""
    match node:
        case ast.IntLit():
            return str(node.value)
        case ast.DecimalLit():
            return node.text
        case ast.BoolLit():
            return "true" if node.value else "false"
        case ast.StrLit():
            return quoted(node.value)
        case ast.Param():
            return f"${node.index}" + ("" if node.text is None else f"={node.text!r}")
        case ast.Name() | ast.Var():
            return node.name
        case ast.MapRef():
            return f"{node.name}[{_list(node.key)}]" if node.key else node.name
        case ast.Call():
            return f"{node.name}({_list(node.args)})"
        case ast.Unary():
            return f"({node.op}{expression(node.operand)})"
        case ast.IncDec():
            target = expression(node.target)
            return f"({node.op}{target})" if node.prefix else f"({target}{node.op})"
        case ast.Binary():
            return f"({expression(node.left)} {node.op} {expression(node.right)})"
        case ast.Ternary():
            return f"({expression(node.condition)} ? {expression(node.then)} : {expression(node.otherwise)})"
        case ast.Comptime():
            return f"(comptime {expression(node.operand)})"
        case ast.Elvis():
            return f"({expression(node.value)} ?: {expression(node.otherwise)})"
        case ast.BlockExpr():
            lines = [line.strip() for line in _body(node.body, 0)]
            return f"{{ {'; '.join([*lines, *([expression(node.value)] if node.value else [])])} }}"
        case ast.Cast():
            return f"(({_type(node.type)}){expression(node.operand)})"
        case ast.TypeExpr():
            return _type(node.type)
        case ast.TupleExpr():
            if node.names:
                pairs = zip(node.names, node.items, strict=True)
                return f"record({', '.join(f'{name}={expression(item)}' for name, item in pairs)})"
            return f"tuple({_list(node.items)})"
        case ast.Field():
            return f"{expression(node.operand)}.{node.name}"
        case ast.Index():
            return f"{expression(node.operand)}[{expression(node.index)}]"
    raise AssertionError(f"unknown node {type(node).__name__}")
