"""Expressions but calls: their types, the conversions they imply, and folding."""

from __future__ import annotations

from tracer.dataclass import replace
from tracer.lang import suggest, typed, unsupported
from tracer.lang.builtins import INTEGER_TYPES
from tracer.lang.check.names import NameChecker
from tracer.lang.check.operators import binary
from tracer.lang.convert import cast, constant, convert, literal, string
from tracer.lang.syntax import ast
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    BoolType,
    FloatType,
    IntType,
    StringType,
    TupleType,
)
from tracer.lang.types.combine import LITERAL, a, inverted, join
from tracer.lang.types.operations import invert, negate


class ExpressionChecker(NameChecker):
    """One method per kind of expression."""

    def expr(self, node: ast.Expr) -> typed.Expr | None:
        """A typed expression: dispatches on the kind of node."""
        match node:
            case ast.IntLit():
                return literal(node.value, node.span)
            case ast.BoolLit():
                return typed.BoolLit(BOOL, node.span, node.value)
            case ast.StrLit():
                return string(node.value, node.span)
            case ast.Param():
                return self.param(node)
            case ast.Name():
                return self._computable(self.name(node))
            case ast.Var():
                return self.variable(node)
            case ast.MapRef():
                return self.read(node)
            case ast.Call():
                return self.call(node)
            case ast.Unary():
                return self._unary(node)
            case ast.IncDec():
                return self._increment(node)
            case ast.Binary():
                return self._binary(node)
            case ast.Ternary():
                return self._ternary(node)
            case ast.Cast():
                return self._cast(node)
            case ast.TupleExpr():
                items = [self.expr(item) for item in node.items]
                whole = tuple(item for item in items if item is not None)
                if len(whole) != len(items):
                    return None
                return typed.TupleExpr(TupleType(tuple(item.type for item in whole)), node.span, whole)
            case ast.Field():
                return self._field(node)
            case ast.Index():
                return self._index(node)
        raise AssertionError(f"unknown node {type(node).__name__}")

    def shown(self, node: ast.Expr) -> typed.Expr | None:
        """An expression that is only shown: it may be a floating-point number."""
        return self.name(node) if isinstance(node, ast.Name) else self.expr(node)

    def _computable(self, value: typed.Expr | None) -> typed.Expr | None:
        if value is None or not isinstance(value.type, FloatType):
            return value
        name = self.text(value.span)
        self.error(
            f"{name} is {a(value.type)}, and a floating-point number can only be shown so far",
            value.span,
            f'print({name}) and printf("%f", {name}) show it',
        )
        return None

    def integer(self, node: ast.Expr, what: str) -> typed.Expr | None:
        """An expression that has to be an integer or bool."""
        value = self.expr(node)
        if value is None or isinstance(value.type, (IntType, BoolType)):
            return value
        self.error(f"{what} must be an integer, not {a(value.type)}", value.span)
        return None

    def condition(self, node: ast.Expr, what: str) -> typed.Expr | None:
        """An expression that is true or false."""
        value = self.expr(node)
        if value is None or isinstance(value.type, (IntType, BoolType)):
            return value
        hint = 'compare it, as in str(arg0) == "text"' if isinstance(value.type, StringType) else None
        self.error(f"{what} must be an integer or bool, not {a(value.type)}", value.span, hint)
        return None

    def constant(self, node: ast.Expr, what: str) -> int | None:
        """An expression that folds to an integer."""
        value = self.integer(node, what)
        if value is None:
            return None
        number = constant(value)
        if number is None:
            self.error(f"{what} must be a constant", value.span, "it is needed before the first hit")
        return number

    # --- operators

    def _unary(self, node: ast.Unary) -> typed.Expr | None:
        if node.op == "*":
            return self._load(node)
        operand = self.integer(node.operand, f"the operand of '{node.op}'")
        if operand is None:
            return None
        value = constant(operand)
        if node.op == "!":
            if value is not None:
                return typed.BoolLit(BOOL, node.span, value == 0)
            return typed.Unary(BOOL, node.span, "!", operand)
        if value is not None and node.op == "-" and (operand.type is LITERAL or isinstance(node.operand, ast.IntLit)):
            if value > 1 << 63:
                self.error(f"-{value} does not fit in 64 bits", node.span, f"the smallest number is {-(1 << 63)}")
                return None
            return literal(-value, node.span)
        type = INT64 if node.op == "-" else inverted(operand.type)
        operand = convert(operand, type)
        value = constant(operand)
        if value is not None:
            return typed.IntLit(type, node.span, (negate if node.op == "-" else invert)(value, type))
        return typed.Unary(type, node.span, node.op, operand)

    def _binary(self, node: ast.Binary) -> typed.Expr | None:
        left, right = self.expr(node.left), self.expr(node.right)
        if left is None or right is None:
            return None
        result = binary(node.op, left, right, node.span, self.text)
        for diagnostic in result.diagnostics:
            self._record(diagnostic)
        return result.expr

    def _ternary(self, node: ast.Ternary) -> typed.Expr | None:
        condition = self.condition(node.condition, "the condition of '?'")
        then, otherwise = self.expr(node.then), self.expr(node.otherwise)
        if condition is None or then is None or otherwise is None:
            return None
        type = join(then.type, otherwise.type)
        if type is None and isinstance(then.type, IntType) and isinstance(otherwise.type, IntType):
            type = INT64
        if type is None:
            self.error(f"'?' has {a(then.type)} on one side and {a(otherwise.type)} on the other", node.span)
            return None
        then, otherwise = convert(then, type), convert(otherwise, type)
        value = constant(condition)
        if value is not None:
            return then if value else otherwise
        return typed.Ternary(type, node.span, condition, then, otherwise)

    def _increment(self, node: ast.IncDec) -> typed.Expr | None:
        delta = 1 if node.op == "++" else -1
        if isinstance(node.target, ast.MapRef):
            return self._map_increment(node, node.target, delta)
        assert isinstance(node.target, ast.Var)
        value = self.variable(node.target)
        variable = self.lookup(node.target.name)
        if variable is None:
            return None
        self.found.variable(variable.key).add_weak(LITERAL, node.span)
        if value is None:
            return None
        if not isinstance(value.type, IntType):
            self.error(f"'{node.op}' needs an integer, {node.target.name} is {a(value.type)}", node.span)
            return None
        return typed.VarIncr(value.type, node.span, variable.slot, delta, node.prefix)

    def _map_increment(self, node: ast.IncDec, target: ast.MapRef, delta: int) -> typed.Expr | None:
        key = self.key(target.name, target.key, target.span)
        if not self.hold(target, "scalar") or key is None:
            return None
        self.found.map(target.name).value.add_weak(LITERAL, node.span)
        type = self.map_type(target.name) if target.name in self.known.maps else None
        if type is None:
            return None
        if not isinstance(type, IntType):
            self.error(f"'{node.op}' needs an integer, {target.name} holds {a(type)}", node.span)
            return None
        return typed.MapIncr(type, node.span, target.name, key, delta, node.prefix)

    # --- types

    def _cast(self, node: ast.Cast) -> typed.Expr | None:
        to = self.cast_type(node.type)
        if node.type.pointer and to is not None:
            self.error(
                "pointers are not values",
                node.type.span,
                f"read at once, as in *({node.type.name} *){self.text(node.operand.span)}",
            )
            return None
        value = self.expr(node.operand)
        if to is None or value is None:
            return None
        if not isinstance(value.type, (IntType, BoolType)):
            self.error(f"{a(value.type)} cannot be cast to {to}", value.span)
            return None
        result = cast(value, to)
        return replace(result, span=node.span)

    def cast_type(self, node: ast.TypeName) -> IntType | BoolType | None:
        """The type that a cast names, reported where there is none."""
        if node.struct:
            message, hint = unsupported.phrase(f"'{node.name}'", unsupported.STATEMENTS["struct"])
            self.error(message, node.span, hint)
        elif node.array:
            self.error("arrays are not supported", node.span, "read the items one by one: *(uint8 *)(address + 1)")
        elif node.name in INTEGER_TYPES:
            return INTEGER_TYPES[node.name]
        elif node.name in ("string", "buffer", "inet", "void"):
            self.error(f"a cast to {node.name} is not supported", node.span, "str(addr) reads a string")
        else:
            hint = suggest.hint(node.name, INTEGER_TYPES, "known are bool, int8 to int64 and uint8 to uint64")
            self.error(f"unknown type '{node.name}'", node.span, hint)
        return None

    def _load(self, node: ast.Unary) -> typed.Expr | None:
        """`*(int32 *)address`, `*address`."""
        type: IntType = UINT64
        operand = node.operand
        if isinstance(operand, ast.Cast) and operand.type.pointer:
            to = self.cast_type(operand.type)
            if to is None:
                return None
            type = to if isinstance(to, IntType) else IntType(8, False)
            operand = operand.operand
        if self.unit.kind != "probe":
            self.error(
                f"there is no memory to read in {self.unit.place}", node.span, "memory is read where a probe is hit"
            )
            return None
        address = self.integer(operand, "an address")
        return None if address is None else typed.Load(type, node.span, convert(address, UINT64))

    def _field(self, node: ast.Field) -> typed.Expr | None:
        if isinstance(node.operand, ast.Name) and node.operand.name == "args":
            message, hint = unsupported.phrase(self.text(node.span), unsupported.BUILTINS["args"])
            self.error(message, node.span, hint)
            return None
        operand = self.expr(node.operand)
        if operand is None:
            return None
        if not node.name.isdigit():
            self.error(f"'.{node.name}': structs are not supported", node.span, unsupported.STATEMENTS["struct"][1])
            return None
        return self._item(node, operand, int(node.name[:9]))

    def _index(self, node: ast.Index) -> typed.Expr | None:
        operand = self.expr(node.operand)
        if operand is None:
            return None
        if not isinstance(operand.type, TupleType):
            self.error("arrays are not supported", node.span, "read the items one by one: *(uint8 *)(address + 1)")
            return None
        index = self.constant(node.index, "the index of a tuple")
        return None if index is None else self._item(node, operand, index)

    def _item(self, node: ast.Expr, operand: typed.Expr, index: int) -> typed.Expr | None:
        if not isinstance(operand.type, TupleType):
            self.error(f"{a(operand.type)} has no items", node.span, "only tuples have: (1, 2).0")
            return None
        items = operand.type.items
        if not 0 <= index < len(items):
            self.error(f"there is no item {index} in a tuple of {len(items)}", node.span, "items are counted from 0")
            return None
        return typed.TupleItem(items[index], node.span, operand, index)
