"""Assignments to variables and maps, aggregations included."""

from __future__ import annotations

from collections.abc import Hashable

from tracer.errors import Span
from tracer.lang import typed
from tracer.lang.builtins import FUNCTIONS, HIST_BITS_MOST, LHIST_BUCKETS_MOST
from tracer.lang.check.calls import CallChecker
from tracer.lang.check.maps import mismatch_hint
from tracer.lang.check.operators import binary
from tracer.lang.convert import constant, convert
from tracer.lang.syntax import ast
from tracer.lang.types import (
    BOOL,
    INT64,
    BoolType,
    IntType,
    StackType,
    StringType,
    TupleType,
    Type,
    VoidType,
)
from tracer.lang.types.combine import LITERAL, a, say, stored, wide
from tracer.lang.types.operations import wrap
from tracer.results.buckets import linear_count


class AssignmentChecker(CallChecker):
    """Everything with an `=`."""

    def assign(self, node: ast.Assign) -> tuple[typed.Stmt, ...]:
        """`target op value`."""
        if isinstance(node.value, (ast.Call, ast.Name)) and _aggregation(node.value):
            return self._aggregate(node)
        if isinstance(node.target, ast.MapRef):
            return self._assign_map(node, node.target)
        return self._assign_variable(node, node.target)

    def _assign_variable(self, node: ast.Assign, target: ast.Var) -> tuple[typed.Stmt, ...]:
        value = self.expr(node.value)
        variable = self.lookup(target.name)
        if node.op != "=":
            old = self.variable(target)
            if value is None or old is None or variable is None:
                if variable is not None and value is not None and isinstance(value.type, IntType):
                    self.found.variable(variable.key).add_weak(_weak(node.op, value.type), node.span)
                return ()
            combined = self._combine(node, old, value)
            if combined is None:
                return ()
            assert isinstance(value.type, (IntType, BoolType))
            self.found.variable(variable.key).add_weak(_weak(node.op, value.type), node.span)
            return (typed.VarSet(node.span, variable.slot, convert(combined, old.type)),)
        if variable is None:
            variable = self.declare(target.name, node, target.span)
        return self._set_variable(node.span, variable.key, variable.slot, target.name, value)

    def _set_variable(
        self, span: Span, key: Hashable, slot: int, name: str, value: typed.Expr | None
    ) -> tuple[typed.Stmt, ...]:
        if value is None:
            return ()
        facts = self.found.variable(key)
        conflict = facts.add(value.type, span)
        if conflict is not None:
            self.error(
                f"{name} is assigned {a(value.type)} here, but {a(conflict)} at {self.at(facts.span)}",
                value.span,
                mismatch_hint(value.type, conflict),
            )
            return ()
        known = self.known.variables.get(key)
        type = known.type() if known else None
        return () if type is None else (typed.VarSet(span, slot, self._fit(value, type)),)

    def _fit(self, value: typed.Expr, type: Type) -> typed.Expr:
        """A conversion that may meet types of an unfinished pass."""
        try:
            return convert(value, type)
        except ValueError:
            return value

    def let(self, node: ast.Let) -> tuple[typed.Stmt, ...]:
        """`let $x`, which is 0 or empty until it is assigned, and `let $x = value`."""
        name = node.target.name
        value = self.expr(node.value) if node.value is not None else None
        outer = self.lookup(name)
        if outer is not None:
            self.error(
                f"{name} is a variable already, from {self.at(outer.span)}", node.target.span, "use another name"
            )
            return ()
        variable = self.declare(name, node, node.target.span)
        if node.type is not None:
            declared = self._declared(node.type)
            if declared is None:
                return ()
            facts = self.found.variable(variable.key)
            facts.add(declared, node.type.span)
            facts.fixed = not isinstance(declared, StringType)
        if node.value is not None:
            return self._set_variable(node.span, variable.key, variable.slot, name, value)
        type = self.variable_type(variable)
        if type is None:
            return ()
        empty = _empty(type, node.span)
        if empty is None:
            self.error(
                f"{name} needs a first value: there is no empty {say(type)}", node.span, f"write let {name} = …;"
            )
            return ()
        return (typed.VarSet(node.span, variable.slot, empty),)

    def _declared(self, type: ast.TypeName) -> Type | None:
        if type.name == "string" and not (type.pointer or type.array):
            return StringType(1)
        if type.pointer:
            self.error("pointers are not values", type.span, "keep the address as a uint64")
            return None
        return self.cast_type(type)

    def _assign_map(self, node: ast.Assign, target: ast.MapRef) -> tuple[typed.Stmt, ...]:
        key = self.key(target.name, target.key, target.span)
        value = self.expr(node.value)
        if not self.hold(target, "scalar") or key is None or value is None:
            return ()
        if node.op != "=":
            return self._compound_map(node, target, key, value)
        if not self._storable(target, value):
            return ()
        type = self.map_type(target.name) if target.name in self.known.maps else None
        if isinstance(node.value, ast.MapRef) and self._is_aggregate(value):
            if type is None:
                self.error(
                    f"{self.text(value.span)} is an aggregation, whose value needs a cast here",
                    value.span,
                    f"write {target.name} = (int64){self.text(value.span)};",
                )
                return ()
        else:
            self.assigned_value(target, value.type, value.span)
        return () if type is None else (typed.MapSet(node.span, target.name, key, self._fit(value, type)),)

    def _is_aggregate(self, value: typed.Expr) -> bool:
        return isinstance(value, typed.MapGet) and self.known.maps[value.map].kind != "scalar"

    def _storable(self, target: ast.MapRef, value: typed.Expr) -> bool:
        if isinstance(value.type, VoidType):
            self.error(f"{target.name} needs a value", value.span)
            return False
        return True

    def _compound_map(
        self, node: ast.Assign, target: ast.MapRef, key: tuple[typed.Expr, ...], value: typed.Expr
    ) -> tuple[typed.Stmt, ...]:
        facts = self.found.map(target.name).value
        if isinstance(value.type, (IntType, BoolType)):
            weak = stored(_weak(node.op, value.type))
            assert isinstance(weak, IntType)
            facts.add_weak(weak, node.span)
        type = self.map_type(target.name) if target.name in self.known.maps else None
        if type is None:
            return ()
        old = typed.MapGet(type, target.span, target.name, key)
        combined = self._combine(node, old, value)
        if combined is None or not isinstance(type, IntType):
            return ()
        if node.op == "+=":
            return (typed.MapAdd(node.span, target.name, key, convert(value, type)),)
        if node.op == "-=":
            return (typed.MapAdd(node.span, target.name, key, _negated(convert(value, type), type)),)
        return (typed.MapSet(node.span, target.name, key, convert(combined, type)),)

    def _combine(self, node: ast.Assign, old: typed.Expr, value: typed.Expr) -> typed.Expr | None:
        """`old op value` of a compound assignment."""
        if not isinstance(old.type, IntType):
            self.error(f"'{node.op}' needs an integer, {self.text(old.span)} is {a(old.type)}", node.span)
            return None
        outcome = binary(node.op[:-1], old, value, node.span, self.text)
        for diagnostic in outcome.diagnostics:
            self._record(diagnostic)
        return outcome.expr

    # --- aggregations

    def _aggregate(self, node: ast.Assign) -> tuple[typed.Stmt, ...]:
        value, target = node.value, node.target
        call = value if isinstance(value, ast.Call) else ast.Call(value.span, value.name, (), value.span)  # type: ignore[attr-defined]
        row = self.function(call)
        if row is None:
            if isinstance(target, ast.MapRef):
                self.found.map(target.name).kind = self.found.map(target.name).kind or call.name  # type: ignore[assignment]
            return ()
        if not isinstance(target, ast.MapRef) or node.op != "=":
            name = target.name if isinstance(target, ast.MapRef) else "@name"
            self.error(
                f"{call.name}() can only be assigned to a map, with '='", node.span, f"write {name} = {row.call};"
            )
            return ()
        key = self.key(target.name, target.key, target.span)
        operand = self.integer(call.args[0], f"the argument of {call.name}()") if call.args else None
        parameters = self._parameters(call)
        kind: typed.MapKind = call.name  # type: ignore[assignment]
        if not self.hold(target, kind, parameters or ()) or parameters is None:
            return ()
        if call.name == "count":
            return () if key is None else (typed.Aggregate(node.span, target.name, key, "count", None),)
        if operand is None:
            return ()
        type = operand.type if isinstance(operand.type, IntType) else LITERAL
        conflict = self.found.map(target.name).value.add(stored(type), operand.span)
        if conflict is not None:
            first = self.at(self.found.map(target.name).value.span)
            self.error(
                f"{target.name} takes {say(type)} values here, but {say(conflict)} at {first}",
                operand.span,
                mismatch_hint(stored(type), conflict),
            )
            return ()
        known = self.known.maps[target.name].value.type() if target.name in self.known.maps else None
        if key is None or known is None:
            return ()
        function: typed.AggregateName = call.name  # type: ignore[assignment]
        return (typed.Aggregate(node.span, target.name, key, function, convert(operand, known)),)

    def _parameters(self, call: ast.Call) -> tuple[int, ...] | None:
        """The constants after the first argument of hist() and lhist(), checked."""
        if call.name == "hist" and len(call.args) == 2:
            bits = self.constant(call.args[1], "the second argument of hist()")
            if bits is not None and not 0 <= bits <= HIST_BITS_MOST:
                self.error(
                    f"the second argument of hist() must be from 0 to {HIST_BITS_MOST}, not {bits}", call.args[1].span
                )
                return None
            return None if bits is None else (bits,)
        if call.name == "hist":
            return (0,)
        if call.name != "lhist":
            return ()
        words = ("low end", "high end", "step")
        values = [self.constant(arg, f"the {word} of lhist()") for arg, word in zip(call.args[1:], words, strict=True)]
        numbers = tuple(wrap(value, INT64) for value in values if value is not None)
        if len(numbers) != 3:
            return None
        low, high, step = numbers
        if step <= 0:
            self.error(f"the step of lhist() must be greater than 0, not {step}", call.args[3].span)
        elif high <= low:
            self.error(
                f"the high end of lhist() must be above the low end: {low} to {high} is empty", call.args[2].span
            )
        elif linear_count(low, high, step) - 2 > LHIST_BUCKETS_MOST:
            buckets = linear_count(low, high, step) - 2
            self.error(f"lhist() makes {buckets} buckets, at most {LHIST_BUCKETS_MOST}", call.span, "use a larger step")
        else:
            return numbers
        return None


def _aggregation(node: ast.Expr) -> bool:
    name = node.name if isinstance(node, (ast.Call, ast.Name)) else ""
    return name in FUNCTIONS and FUNCTIONS[name].kind == "aggregation"


def _weak(op: str, type: Type) -> IntType:
    """What a compound assignment says about its target."""
    if not isinstance(type, IntType):
        return LITERAL
    return INT64 if op == "-=" and type is not LITERAL else type if type is LITERAL else wide(type)


def _negated(value: typed.Expr, type: IntType) -> typed.Expr:
    number = constant(value)
    if number is not None:
        return typed.IntLit(type, value.span, wrap(-number, type))
    return typed.Unary(type, value.span, "-", value)


def _empty(type: Type, span: Span) -> typed.Expr | None:
    """The value of a variable that has not been assigned."""
    match type:
        case IntType():
            return typed.IntLit(type, span, 0)
        case BoolType():
            return typed.BoolLit(BOOL, span, False)
        case StringType():
            return convert(typed.StrLit(StringType(1), span, b""), type)
        case TupleType():
            items = [_empty(item, span) for item in type.items]
            return typed.TupleExpr(type, span, tuple(item for item in items if item)) if all(items) else None
        case StackType():
            return None
    return None
