"""The dump of the typed program; `lang.printing.syntax` says how it looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracer.lang import typed
from tracer.lang.printing.syntax import quoted
from tracer.lang.types import TimestampType, Type
from tracer.lang.walk import children

INDENT = "  "


def print_typed(program: typed.Program) -> str:
    """All of it."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: typed.Program) -> Iterator[str]:
    config, plain = program.config, typed.Config()
    for name in ("max_strlen", "max_map_keys", "stack_frames"):
        if getattr(config, name) != getattr(plain, name):
            yield f"config {name} = {getattr(config, name)}"
    for decl in program.maps.values():
        yield _map(decl)
    for clause in program.clauses:
        yield from _clause(program, clause)


def _map(decl: typed.MapDecl) -> str:
    key = f"[{', '.join(map(_type, decl.key))}]" if decl.key else ""
    key += f" {'the last' if decl.forgets else 'at most'} {decl.most}" if decl.most else ""
    if decl.kind == "scalar":
        return f"map {decl.name}{key}: {_type(decl.value)}"
    parameters = "".join(f", {parameter}" for parameter in decl.parameters)
    return f"map {decl.name}{key}: {decl.kind}({_type(decl.value)}{parameters})"


def _clause(program: typed.Program, clause: typed.Clause) -> Iterator[str]:
    period = f" every {clause.period_ns}ns" if clause.period_ns else ""
    yield f"clause {clause.id} {clause.kind.name}{period}: {', '.join(clause.names)}"
    for site in clause.sites:
        yield f"{INDENT}site {site.kind} {site.probe} at {site.offset:#x}"
    for slot, type in enumerate(clause.slots):
        yield f"{INDENT}slot {slot}: {_type(type)}"
    if clause.predicate is not None:
        yield f"{INDENT}when {expression(clause.predicate)}"
    yield from _body(program, clause.body, 1)


def _body(program: typed.Program, statements: Iterable[typed.Stmt], depth: int) -> Iterator[str]:
    for statement in statements:
        yield from _statement(program, statement, depth)


def _statement(program: typed.Program, node: typed.Stmt, depth: int) -> Iterator[str]:
    pad = INDENT * depth
    for block in _blocks(node):
        yield f"{pad}block"
        yield from _body(program, block.body, depth + 1)
    match node:
        case typed.If():
            yield f"{pad}if {expression(node.condition)}"
            yield from _body(program, node.then, depth + 1)
            if node.otherwise:
                yield f"{pad}else"
                yield from _body(program, node.otherwise, depth + 1)
        case typed.While():
            yield f"{pad}while {expression(node.condition)}"
            yield from _body(program, node.body, depth + 1)
        case typed.ForRange():
            yield f"{pad}for {node.slot} in {expression(node.start)}..{expression(node.stop)}"
            yield from _body(program, node.body, depth + 1)
        case typed.ForMap():
            yield f"{pad}for {node.slot} in {node.map}"
            yield from _body(program, node.body, depth + 1)
        case _:
            yield pad + _simple(program, node)


def _blocks(node: typed.Stmt | typed.Expr) -> Iterator[typed.BlockExpr]:
    """The blocks in a statement's own expressions, which are printed before it."""
    for child in children(node):
        if isinstance(child, typed.BlockExpr):
            yield child
        if isinstance(child, typed.Expr):
            yield from _blocks(child)


def _simple(program: typed.Program, node: typed.Stmt) -> str:
    match node:
        case typed.VarSet():
            return f"slot {node.slot} = {expression(node.value)}"
        case typed.MapSet():
            return f"{_place(node.map, node.key)} = {expression(node.value)}"
        case typed.MapAdd():
            return f"{_place(node.map, node.key)} += {expression(node.value)}"
        case typed.Aggregate():
            value = "" if node.value is None else expression(node.value)
            return f"{_place(node.map, node.key)} = {node.function}({value})"
        case typed.Delete():
            return f"delete {_place(node.map, node.key)}"
        case typed.ExprStmt():
            return expression(node.expr)
        case typed.Printf():
            output = program.outputs.get(node.format)
            return f"{output.kind if output else 'printf'} {_text(program.formats[node.format])}" + "".join(
                f", {expression(arg)}" for arg in node.args
            )
        case typed.PrintValue():
            return f"print {expression(node.value)}"
        case typed.PrintMap():
            return (
                f"print {node.map}"
                + (f" top {node.top}" if node.top else "")
                + (f" div {node.div}" if node.div else "")
            )
        case typed.Clear() | typed.Zero():
            return f"{type(node).__name__.lower()} {node.map}"
        case typed.Time():
            return f"time {_text(program.formats[node.format])}"
        case typed.Exit():
            return f"exit {expression(node.code)}"
        case typed.Return() | typed.Break() | typed.Continue():
            return type(node).__name__.lower()
    raise AssertionError(f"unknown statement {type(node).__name__}")


def _text(format: str) -> str:
    return quoted(format.encode("utf-8", "surrogateescape"))


def _type(type: Type) -> str:
    return f"timestamp({_text(type.format)})" if isinstance(type, TimestampType) else str(type)


def _place(name: str, key: Iterable[typed.Expr]) -> str:
    parts = ", ".join(map(expression, key))
    return f"{name}[{parts}]" if parts else name


def expression(node: typed.Expr) -> str:
    """An expression and its type."""
    return f"{_expression(node)}:{_type(node.type)}"


def _expression(node: typed.Expr) -> str:
    match node:
        case typed.IntLit():
            return str(node.value)
        case typed.BoolLit():
            return "true" if node.value else "false"
        case typed.StrLit():
            return quoted(node.value)
        case typed.Builtin():
            return node.name
        case typed.Arg():
            return f"arg{node.index}"
        case typed.Retval():
            return "retval"
        case typed.Var():
            return f"{node.name}#{node.slot}"
        case typed.MapGet():
            return _place(node.map, node.key)
        case typed.MapLen():
            return f"len({node.map})"
        case typed.Deleted():
            return f"delete({_place(node.map, node.key)})"
        case typed.Find():
            return f"find({_place(node.map, node.key)}, slot {node.slot})"
        case typed.HasKey():
            return f"has_key({_place(node.map, node.key)})"
        case typed.Unary():
            return f"({node.op}{expression(node.operand)})"
        case typed.Binary():
            return f"({expression(node.left)} {node.op} {expression(node.right)})"
        case typed.Ternary():
            return f"({expression(node.condition)} ? {expression(node.then)} : {expression(node.otherwise)})"
        case typed.BlockExpr():
            return f"{{ …; {expression(node.value)} }}"
        case typed.Cast():
            return f"cast({expression(node.operand)})"
        case typed.TupleExpr():
            return f"tuple({', '.join(map(expression, node.items))})"
        case typed.TupleItem():
            return f"{expression(node.operand)}.{node.index}"
        case typed.Part():
            return f"part({expression(node.operand)}, {expression(node.offset)})"
        case typed.Within():
            return f"within({expression(node.index)}, {node.count})"
        case typed.Pack():
            return f"pack({', '.join(map(expression, node.items))})"
        case typed.VarIncr() | typed.MapIncr():
            target = f"slot {node.slot}" if isinstance(node, typed.VarIncr) else _place(node.map, node.key)
            op = "++" if node.delta > 0 else "--"
            return f"({op}{target})" if node.prefix else f"({target}{op})"
        case _:
            return _call(node)


def _call(node: typed.Expr) -> str:
    match node:
        case typed.Load():
            return f"load({expression(node.address)})"
        case typed.Str():
            size = expression(node.length) if node.length is not None else "sized" if node.sized else ""
            return f"str({expression(node.address)}{', ' if size else ''}{size})"
        case typed.UStack():
            return "ustack"
        case typed.Call():
            return f"{node.name}({', '.join(map(expression, node.args))})"
        case typed.USym():
            return f"usym({expression(node.address)})"
        case typed.Strftime():
            return f"strftime({expression(node.nanoseconds)})"
    raise AssertionError(f"unknown expression {type(node).__name__}")
