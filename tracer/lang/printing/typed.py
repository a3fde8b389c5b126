"""The dump of the typed program, `-d typed`: each expression with its type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracer.kinds.site import in_files
from tracer.lang import typed
from tracer.lang.printing.tree import INDENT, Form, Tree, quoted
from tracer.lang.types import TimestampType, Type
from tracer.lang.walk import children


def print_typed(program: typed.Program) -> str:
    """The text of a typed program, a line for each statement."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: typed.Program) -> Iterator[str]:
    config, plain = program.config, typed.Config()
    for name in ("max_strlen", "max_map_keys", "stack_frames"):
        if getattr(config, name) != getattr(plain, name):
            yield f"config {name} = {getattr(config, name)}"
    for decl in program.maps.values():
        yield _map(decl)
    tree = tree_of(program)
    for clause in program.clauses:
        yield from _clause(tree, clause)


def _map(decl: typed.MapDecl) -> str:
    key = f"[{', '.join(map(_type, decl.key))}]" if decl.key else ""
    key += f" {'the last' if decl.forgets else 'at most'} {decl.most}" if decl.most else ""
    if decl.kind == "scalar":
        return f"map {decl.name}{key}: {_type(decl.value)}"
    parameters = "".join(f", {parameter}" for parameter in decl.parameters)
    return f"map {decl.name}{key}: {decl.kind}({_type(decl.value)}{parameters})"


def _clause(tree: Tree, clause: typed.Clause) -> Iterator[str]:
    period = f" every {clause.period_ns}ns" if clause.period_ns else ""
    yield f"clause {clause.id} {clause.kind.name}{period}: {', '.join(clause.names)}"
    for site in in_files(clause.sites):
        yield f"{INDENT}site {site.kind} {site.probe} at {site.offset:#x}"
    for slot, type in enumerate(clause.slots):
        yield f"{INDENT}slot {slot}: {_type(type)}"
    if clause.predicate is not None:
        yield f"{INDENT}when {tree.text(clause.predicate)}"
    yield from tree.body(clause.body, 1)


def tree_of(program: typed.Program) -> Tree:
    """The printer of a program's nodes."""
    def place(node: Any) -> str:
        return f"{node.map}[{tree.text(node.key)}]" if node.key else node.map

    def before(node: typed.Stmt, depth: int) -> Iterator[str]:
        for block in _blocks(node):
            yield f"{INDENT * depth}block"
            yield from tree.body(block.body, depth + 1)

    def printf(node: typed.Printf) -> str:
        output = program.outputs.get(node.format)
        args = "".join(f", {tree.text(arg)}" for arg in node.args)
        return f"{output.kind if output else 'printf'} {_text(program.formats[node.format])}{args}"

    def increment(node: typed.VarIncr | typed.MapIncr) -> str:
        target = f"slot {node.slot}" if isinstance(node, typed.VarIncr) else place(node)
        op = "++" if node.delta > 0 else "--"
        return f"({op}{target})" if node.prefix else f"({target}{op})"

    def string(node: typed.Str) -> str:
        size = tree.text(node.length) if node.length is not None else "sized" if node.sized else ""
        return f"str({tree.text(node.address)}{', ' if size else ''}{size})"

    forms: dict[str, Form] = {
        "ForRange": "for {slot} in {start}..{stop}", "ForMap": "for {slot} in {map}", "VarSet": "slot {slot} = {value}",
        "MapSet": lambda node: f"{place(node)} = {tree.text(node.value)}",
        "MapAdd": lambda node: f"{place(node)} += {tree.text(node.value)}",
        "Aggregate": lambda node: f"{place(node)} = {node.function}({tree.text(node.value)})",
        "Delete": lambda node: f"delete {place(node)}", "Printf": printf, "PrintValue": "print {value}",
        "PrintMap": lambda node: (
            f"print {node.map}" + f" top {node.top}" * bool(node.top) + f" div {node.div}" * bool(node.div)
        ),
        "Clear": "clear {map}", "Zero": "zero {map}",
        "Time": lambda node: f"time {_text(program.formats[node.format])}", "Builtin": "{name}", "Arg": "arg{index}",
        "Var": "{name}#{slot}", "MapGet": place, "MapLen": "len({map})", "UStack": "ustack",
        "KStack": "kstack", "KSym": "ksym({address})",
        "Retval": "retval",
        "Deleted": lambda node: f"delete({place(node)})", "HasKey": lambda node: f"has_key({place(node)})",
        "Find": lambda node: f"find({place(node)}, slot {node.slot})", "BlockExpr": "{{ …; {value} }}",
        "Cast": "cast({operand})", "TupleExpr": "tuple({items})", "TupleItem": "{operand}.{index}",
        "Within": "within({index}, {count})", "Pack": "pack({items})", "VarIncr": increment, "MapIncr": increment,
        "Str": string,
    }  # fmt: skip
    tree = Tree(forms, lambda node: f":{_type(node.type)}", before)
    return tree


def _blocks(node: typed.Stmt | typed.Expr) -> Iterator[typed.BlockExpr]:
    """The blocks in a statement's own expressions, which are printed before it."""
    for child in children(node):
        if isinstance(child, typed.BlockExpr):
            yield child
        if isinstance(child, typed.Expr):
            yield from _blocks(child)


def _text(format: str) -> str:
    return quoted(format.encode("utf-8", "surrogateescape"))


def _type(type: Type) -> str:
    return f"timestamp({_text(type.format)})" if isinstance(type, TimestampType) else str(type)
