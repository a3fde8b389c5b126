"""The dump of the syntax tree, `-d ast`."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.lang.printing.tree import INDENT, Form, Tree
from tracer.lang.syntax import ast


def print_ast(program: ast.Program) -> str:
    """The syntax tree, a line for each statement."""
    return "\n".join(_program(program)) + "\n"


def _program(program: ast.Program) -> Iterator[str]:
    for setting in program.config:
        yield f"config {setting.name} = {setting.value}"
    for map in program.maps:
        yield f"let {map.name} = {map.kind}({map.most})"
    for macro in program.macros:
        yield f"macro {macro.name}({TREE.text(macro.params)})"
        yield from TREE.body(macro.body, 1)
    for function in program.functions:
        pairs = zip(function.params, function.types, strict=True)
        params = ", ".join([f"{param.name}: {TREE.text(type)}" for param, type in pairs])
        yield f"fn {function.name}({params}): {TREE.text(function.result)}"
        yield from TREE.body(function.body, 1)
    for index, clause in enumerate(program.clauses):
        yield f"clause {index}"
        for point in clause.points:
            yield f"{INDENT}{_point(point)}"
        if clause.until is not None:
            by = "" if clause.by is None else f" by {TREE.text(clause.by)}"
            yield f"{INDENT}until {_point(clause.until)}{by}"
        if clause.predicate is not None:
            yield f"{INDENT}when {TREE.text(clause.predicate)}"
        yield from TREE.body(clause.body, 1)


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
    if point.file_offset is not None:
        fields.append(f"file_offset={point.file_offset:#x}")
    if point.source is not None:
        last = f"-{point.last}" if point.last > point.line else ""
        fields.append(f"source={point.source!r} line={'*' if point.by_line else point.line}{last}")
    if point.column:
        fields.append(f"column={point.column}")
    if point.period_ns:
        fields.append(f"period={point.period_ns}ns")
    return " ".join((point.kind, *fields))


def _let(node: ast.Let) -> str:
    declared = f": {TREE.text(node.type)}" if node.type else ""
    return f"let {node.target.name}{declared}" + (f" = {TREE.text(node.value)}" if node.value is not None else "")


def _block(node: ast.BlockExpr) -> str:
    lines = [line.strip() for line in TREE.body(node.body, 0)]
    return f"{{ {'; '.join([*lines, *([TREE.text(node.value)] if node.value else [])])} }}"


def _tuple(node: ast.TupleExpr) -> str:
    if not node.names:
        return f"tuple({TREE.text(node.items)})"
    pairs = zip(node.names, node.items, strict=True)
    return f"record({', '.join(f'{name}={TREE.text(item)}' for name, item in pairs)})"


def _increment(node: ast.IncDec) -> str:
    target = TREE.text(node.target)
    return f"({node.op}{target})" if node.prefix else f"({target}{node.op})"


_FORMS: dict[str, Form] = {
    "Assign": "{target} {op} {value}", "Let": _let, "Block": "block", "Unroll": "unroll {count}",
    "ExprStmt": lambda node: f"{'_ = ' if node.discarded else ''}{TREE.text(node.expr)}",
    "ForRange": "for {target} in {start}..{stop}", "ForMap": "for {target} in {map}",
    "DecimalLit": "{text}",
    "Param": lambda node: f"${node.index}" + ("" if node.text is None else f"={node.text!r}"),
    "Name": "{name}", "Var": "{name}", "IncDec": _increment, "Comptime": "(comptime {operand})",
    "MapRef": lambda node: f"{node.name}[{TREE.text(node.key)}]" if node.key else node.name,
    "Elvis": "({value} ?: {otherwise})", "BlockExpr": _block, "Cast": "(({type}){operand})", "TypeExpr": "{type}",
    "TupleExpr": _tuple, "Field": "{operand}.{name}", "Index": "{operand}[{index}]",
}  # fmt: skip
TREE: Tree = Tree(_FORMS)
