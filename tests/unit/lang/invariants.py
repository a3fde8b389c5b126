"""What `tracer.lang.typed` promises, checked on a whole typed program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from tracer.lang import typed
from tracer.lang.types import BOOL, INT64, UINT64, BoolType, IntType, StringType, TupleType
from tracer.lang.types.operations import ARITHMETIC, COMPARISON, wrap

NUMBERS = (IntType, BoolType)


def nodes(value: object) -> Iterator[object]:
    """Every expression and statement below a value, itself included."""
    if isinstance(value, tuple):
        for item in value:
            yield from nodes(item)
    elif isinstance(value, (typed.Expr, typed.Stmt)) and is_dataclass(value):
        yield value
        for field in fields(value):
            yield from nodes(getattr(value, field.name))


def check(program: typed.Program) -> None:
    """Fails where the program breaks a promise."""
    for clause in program.clauses:
        assert [c.id for c in program.clauses].count(clause.id) == 1
        if clause.predicate is not None:
            assert isinstance(clause.predicate.type, NUMBERS)
        for node in (*nodes(clause.predicate or ()), *nodes(clause.body)):
            if isinstance(node, typed.Expr):
                _expression(program, clause, node)
            elif isinstance(node, typed.Stmt):
                _statement(program, clause, node)


def _key(program: typed.Program, name: str, key: tuple[typed.Expr, ...]) -> None:
    assert tuple(part.type for part in key) == program.maps[name].key


def _expression(program: typed.Program, clause: typed.Clause, node: typed.Expr) -> None:
    match node:
        case typed.IntLit(type=IntType() as type, value=value):
            assert wrap(value, type) == value
        case typed.StrLit(type=StringType(size=size), value=value):
            assert len(value) + 1 == size and b"\0" not in value
        case typed.Arg():
            assert clause.kind.at_hits and node.type == UINT64
        case typed.Var():
            assert node.type == clause.slots[node.slot]
        case typed.MapGet():
            decl = program.maps[node.map]
            _key(program, node.map, node.key)
            assert decl.kind not in ("hist", "lhist")
            assert node.type == (INT64 if decl.kind == "count" else decl.value)
        case typed.HasKey():
            _key(program, node.map, node.key)
        case typed.MapIncr():
            _key(program, node.map, node.key)
            assert node.type == program.maps[node.map].value and program.maps[node.map].kind == "scalar"
        case typed.VarIncr():
            assert node.type == clause.slots[node.slot] and isinstance(node.type, IntType)
        case typed.Unary():
            assert node.type == (BOOL if node.op == "!" else node.operand.type)
            assert isinstance(node.operand.type, NUMBERS if node.op == "!" else IntType)
        case typed.Binary():
            _binary(node)
        case typed.Ternary():
            assert node.then.type == node.otherwise.type == node.type
            assert isinstance(node.condition.type, NUMBERS)
        case typed.BlockExpr():
            assert node.body and node.value.type == node.type
        case typed.Cast():
            if isinstance(node.type, TupleType):
                assert isinstance(node.operand.type, TupleType)
                assert node.operand.type == node.type.ordered(node.operand.type.names)
            elif isinstance(node.type, StringType):
                assert isinstance(node.operand.type, StringType) and node.operand.type.size < node.type.size
            else:
                assert isinstance(node.type, NUMBERS) and isinstance(node.operand.type, NUMBERS)
                assert node.type != node.operand.type
        case typed.TupleExpr():
            assert isinstance(node.type, TupleType)
            assert node.type == TupleType(tuple(item.type for item in node.items), node.type.names)
        case typed.TupleItem():
            assert isinstance(node.operand.type, TupleType) and node.operand.type.items[node.index] == node.type
        case typed.Load() | typed.Str() | typed.USym():
            assert clause.kind.at_hits and node.address.type == UINT64
        case typed.Strftime():
            assert node.nanoseconds.type == UINT64
        case typed.Call(name="strncmp", args=(left, right, typed.IntLit(value=length))):
            assert isinstance(left.type, StringType) and isinstance(right.type, StringType)
            assert length >= 0


def _binary(node: typed.Binary) -> None:
    if node.op in ("&&", "||"):
        assert node.type == BOOL
        assert isinstance(node.left.type, NUMBERS) and isinstance(node.right.type, NUMBERS)
        return
    assert node.left.type == node.right.type
    if node.op in COMPARISON:
        assert node.type == BOOL
        allowed = (IntType, StringType, TupleType) if node.op in ("==", "!=") else IntType
        assert isinstance(node.left.type, allowed)
    else:
        assert node.op in ARITHMETIC and node.type == node.left.type in (INT64, UINT64)


def _statement(program: typed.Program, clause: typed.Clause, node: typed.Stmt) -> None:
    match node:
        case typed.VarSet():
            assert node.value.type == clause.slots[node.slot]
        case typed.MapSet() | typed.MapAdd():
            _key(program, node.map, node.key)
            assert program.maps[node.map].kind == "scalar" and node.value.type == program.maps[node.map].value
        case typed.Aggregate():
            _key(program, node.map, node.key)
            decl = program.maps[node.map]
            assert node.function == decl.kind
            if node.function == "count":
                assert node.value is None
            else:
                assert node.value is not None and node.value.type == decl.value
        case typed.Delete():
            _key(program, node.map, node.key)
        case typed.If() | typed.While():
            assert isinstance(node.condition.type, NUMBERS)
        case typed.ForRange():
            assert node.start.type == node.stop.type == clause.slots[node.slot] == INT64
        case typed.ForMap():
            decl = program.maps[node.map]
            key = decl.key[0] if len(decl.key) == 1 else TupleType(decl.key)
            assert clause.slots[node.slot] == TupleType((key, INT64 if decl.kind == "count" else decl.value))
            assert not clause.kind.at_hits
        case typed.PrintValue():
            assert program.shapes[node.shape] == node.value.type
        case typed.Printf() | typed.Time():
            assert node.format < len(program.formats)
        case typed.PrintMap() | typed.Clear() | typed.Zero():
            assert node.map in program.maps
