"""Expressions but calls: their types, the conversions they imply, and folding."""

from __future__ import annotations

import re
from dataclasses import replace

from tracer.errors import Span
from tracer.lang import ast, suggest, typed, unsupported
from tracer.lang.builtins import FUNCTIONS, INTEGER_TYPES, VALUES
from tracer.lang.check.maps import MapChecker
from tracer.lang.check.operators import binary
from tracer.lang.convert import cast, constant, convert, literal, string
from tracer.lang.inference import LITERAL, SMALL, a, join
from tracer.lang.lexer import Fault, number
from tracer.lang.operations import invert, negate
from tracer.lang.types import (
    BOOL,
    INT64,
    UINT64,
    BoolType,
    IntType,
    StackType,
    StringType,
    TupleType,
    Type,
    UsernameType,
)

ARGUMENT = re.compile(r"arg([0-9]+)")
COMM_SIZE = 16
"""TASK_COMM_LEN of the kernel."""

_SMALL_VALUES = frozenset(("pid", "tid", "uid", "gid", "cpu", "cpid"))


class ExpressionChecker(MapChecker):
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
                return self._param(node)
            case ast.Name():
                return self._name(node)
            case ast.Var():
                return self._variable(node)
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

    def call(self, node: ast.Call) -> typed.Expr | None:
        """A call as a value."""
        raise AssertionError("CallChecker defines it")

    def integer(self, node: ast.Expr, what: str) -> typed.Expr | None:
        """An expression that has to be an integer or bool."""
        value = self.expr(node)
        if value is None or isinstance(value.type, (IntType, BoolType)):
            return value
        self.error(f"{what} must be an integer, not {a(value.type)}", value.span, self._integer_hint(value.type))
        return None

    def _integer_hint(self, type: Type) -> str | None:
        return "strlen(s) is its length" if isinstance(type, StringType) else None

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

    # --- names

    def _param(self, node: ast.Param) -> typed.Expr:
        if node.text is None:
            return typed.IntLit(LITERAL, node.span, 0)
        digits = node.text.removeprefix("-")
        try:
            value = number(digits, node.span)
        except Fault:
            return string(node.text.encode("utf-8", "surrogateescape").split(b"\0")[0], node.span)
        return literal(-value if digits != node.text else value, node.span)

    def _name(self, node: ast.Name) -> typed.Expr | None:
        name, span = node.name, node.span
        if found := ARGUMENT.fullmatch(name):
            return self._argument(node, int(found[1][:9]))
        row = VALUES.get(name)
        if row is None:
            return self._no_value(node)
        if name == "retval":
            return self._retval(node)
        if row.place == "probe" and self.unit.kind != "probe":
            self.error(
                f"{name} is not known in {self.unit.place}", span, f"{name} belongs to a usdt, uprobe or uretprobe"
            )
            return None
        if name == "ustack":
            return typed.UStack(StackType(self.config.stack_frames), span)
        return typed.Builtin(self._builtin_type(name), span, name)

    def _builtin_type(self, name: str) -> Type:
        if name in _SMALL_VALUES:
            return SMALL
        if name == "comm":
            return StringType(COMM_SIZE)
        if name == "username":
            return UsernameType()
        if name == "probe":
            names = [site.probe for site in self.unit.sites] or [point.text for point in self.unit.points]
            return StringType(max(len(text.encode("utf-8", "surrogateescape")) for text in names) + 1)
        if name == "func":
            return StringType(max((len(site.function.encode()) for site in self.unit.sites), default=63) + 1)
        return UINT64

    def _no_value(self, node: ast.Name) -> typed.Expr | None:
        name = node.name
        row = FUNCTIONS.get(name)
        if row is not None and row.least == 0:
            return self.call(ast.Call(node.span, name, (), node.span))
        if row is not None:
            self.error(f"{name} is a function", node.span, f"write {row.call}")
        elif name in unsupported.BUILTINS:
            message, hint = unsupported.phrase(name, unsupported.BUILTINS[name])
            self.error(message, node.span, hint)
        elif name in unsupported.FUNCTIONS:
            message, hint = unsupported.phrase(f"{name}()", unsupported.FUNCTIONS[name])
            self.error(message, node.span, hint)
        else:
            near = suggest.nearest(name, (*VALUES, *FUNCTIONS, "arg0", "true", "false"))
            other = f"variables are written ${name}, maps @{name}, strings in quotes"
            self.error(f"unknown name '{name}'", node.span, f"did you mean {near}?" if near else other)
        return None

    def _argument(self, node: ast.Name, index: int) -> typed.Expr | None:
        unit = self.unit
        if unit.kind != "probe":
            self.error(
                f"{node.name} is not known in {unit.place}", node.span, "arguments belong to usdt and uprobe probes"
            )
            return None
        if unit.returns_only:
            self.error(
                f"{node.name} is not known when the function returns",
                node.span,
                "keep it from a uprobe on the same function: @a[tid] = arg0; the value that is returned is retval",
            )
            return None
        counts = [len(site.args) for site in unit.sites if site.kind in ("usdt", "uprobe")]
        if counts and index >= max(counts):
            self.error(*self._no_argument(node, max(counts)))
            return None
        return typed.Arg(UINT64, node.span, index)

    def _no_argument(self, node: ast.Name, count: int) -> tuple[str, Span, str | None]:
        site = next(site for site in self.unit.sites if len(site.args) == count and site.kind in ("usdt", "uprobe"))
        if count == 0:
            return f"{node.name} does not exist: {site.probe} has no arguments", node.span, None
        known = f"arg0 to arg{count - 1}"
        if site.kind == "uprobe":
            return (
                f"{node.name} does not exist: {count} arguments of a function are passed in registers",
                node.span,
                f"there are {known}",
            )
        if count == 1:
            return f"{node.name} does not exist: {site.probe} has 1 argument", node.span, "there is only arg0"
        return f"{node.name} does not exist: {site.probe} has {count} arguments", node.span, f"there are {known}"

    def _retval(self, node: ast.Name) -> typed.Expr | None:
        if not self.unit.returns_only:
            where = self.unit.place if self.unit.kind != "probe" else "a clause with a probe other than uretprobe"
            self.error(f"retval is not known in {where}", node.span, "use uretprobe:FILE:FUNCTION { … retval … }")
            return None
        return typed.Retval(UINT64, node.span)

    def _variable(self, node: ast.Var) -> typed.Expr | None:
        variable = self.lookup(node.name)
        if variable is None:
            known = {name for scope in self.scopes for name in scope}
            hint = suggest.hint(node.name, known, "assign it first; a variable lives in the block that assigns it")
            self.error(f"{node.name} is used before it is assigned", node.span, hint)
            return None
        type = self.variable_type(variable)
        return None if type is None else typed.Var(type, node.span, variable.slot, node.name)

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
        if value is not None and node.op == "-" and (operand.type is LITERAL or value > (1 << 63) - 1):
            if value > 1 << 63:
                self.error(f"-{value} does not fit in 64 bits", node.span, f"the smallest number is {-(1 << 63)}")
                return None
            return literal(-value, node.span)
        operand = convert(operand, INT64)
        value = constant(operand)
        if value is not None:
            return typed.IntLit(INT64, node.span, (negate if node.op == "-" else invert)(value, INT64))
        return typed.Unary(INT64, node.span, node.op, operand)

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
        value = self._variable(node.target)
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
            self.error(f"{a(value.type)} cannot be cast to {to}", value.span, self._integer_hint(value.type))
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
