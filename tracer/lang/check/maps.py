"""Maps: their keys, what they hold, and the errors where two uses disagree."""

from __future__ import annotations

from collections.abc import Iterable

from tracer.errors import Span
from tracer.lang import suggest, typed
from tracer.lang.check.context import Context
from tracer.lang.convert import convert, tuple_items
from tracer.lang.syntax import ast
from tracer.lang.types import INT64, TimestampType, TupleType, Type
from tracer.lang.types.combine import a, join, say, stored

KEY_HINT = "all uses of a map have the same number and types of keys"


class MapChecker(Context):
    """The rules for maps. What they need of expressions comes from the class below it."""

    def expr(self, node: ast.Expr) -> typed.Expr | None:
        """A typed expression, None where it has no type yet or is wrong (which has been reported)."""
        raise AssertionError("ExpressionChecker defines it")

    def undefined(self, name: str, span: Span) -> None:
        """Reports a map that no clause assigns."""
        assigned = [other for other, facts in self.known.maps.items() if facts.kind is not None]
        self.error(f"undefined map {name}", span, suggest.hint(name, assigned, f"no clause assigns {name}"))

    def defined(self, node: ast.MapRef) -> bool:
        """Whether some clause assigns the map; reports it otherwise."""
        facts = self.known.maps.get(node.name)
        if facts is None or facts.kind is None:
            self.undefined(node.name, node.name_span)
            return False
        return True

    def whole(self, node: ast.Expr, function: str) -> ast.MapRef | None:
        """The argument of a function that takes a map as a whole."""
        if not isinstance(node, ast.MapRef):
            self.error(f"{function}() needs a map", node.span, f"write {function}(@name)")
            return None
        if node.key:
            self.error(f"{function}() takes the whole map", node.span, f"write {function}({node.name})")
            return None
        return node if self.defined(node) else None

    def key(self, name: str, nodes: Iterable[ast.Expr], span: Span) -> tuple[typed.Expr, ...] | None:
        """The typed key of one use of a map, converted to the map's key types; records the use."""
        parts = [self.expr(node) for node in nodes]
        whole = [part for part in parts if part is not None]
        if len(whole) != len(parts):
            return None
        if len(whole) == 1 and isinstance(whole[0].type, TupleType):
            whole = list(tuple_items(whole[0]))
        for part in whole:
            if isinstance(part.type, TimestampType):
                self.error("a timestamp cannot be a key", part.span, "use the nanoseconds themselves")
                return None
        if not self._agree(name, tuple(stored(part.type) for part in whole), span):
            return None
        types = self.known.maps[name].key if name in self.known.maps else None
        if types is None or len(types) != len(whole):
            return tuple(whole)
        return tuple(convert(part, type) for part, type in zip(whole, types, strict=True))

    def _agree(self, name: str, types: tuple[Type, ...], span: Span) -> bool:
        facts = self.found.map(name)
        if facts.key is None or facts.key_span is None:
            facts.key, facts.key_span = types, span
            return True
        place = self.at(facts.key_span)
        if len(types) != len(facts.key):
            self.error(f"{name} has {_count(types)} here, but {_count(facts.key)} at {place}", span, KEY_HINT)
            return False
        common = [join(one, other) for one, other in zip(facts.key, types, strict=True)]
        if None in common:
            here, there = _keys(types), _keys(facts.key)
            self.error(
                f"the key of {name} is {here} here, but {there} at {place}", span, self._cast_hint(types, facts.key)
            )
            return False
        facts.key = tuple(type for type in common if type is not None)
        return True

    def _cast_hint(self, here: tuple[Type, ...], there: tuple[Type, ...]) -> str:
        both = {str(type) for type in (*here, *there)}
        return "cast one of them, as in (int64)arg0" if both == {"int64", "uint64"} else KEY_HINT

    def hold(self, node: ast.MapRef, kind: typed.MapKind, parameters: tuple[int, ...] = ()) -> bool:
        """Records what an assignment makes the map hold; whether that agrees with the assignments before."""
        facts = self.found.map(node.name)
        facts.value.assigned = True
        if facts.kind is None:
            facts.kind, facts.kind_span, facts.parameters = kind, node.span, parameters
            return True
        place = self.at(facts.kind_span)
        if facts.kind != kind:
            self.error(
                f"{node.name} holds {_kind(kind)} here, but {_kind(facts.kind)} at {place}",
                node.span,
                "a map holds one kind of value: use another map",
            )
            return False
        if facts.parameters != parameters:
            self.error(
                f"{node.name} has other parameters for {kind}() at {place}",
                node.span,
                "a histogram has one set of buckets",
            )
            return False
        return True

    def assigned_value(self, node: ast.MapRef, type: Type, span: Span) -> None:
        """Records a plain assignment of a value of this type."""
        facts = self.found.map(node.name).value
        conflict = facts.add(stored(type), span)
        if conflict is not None:
            self.error(
                f"{node.name} is assigned {a(type)} here, but {a(conflict)} at {self.at(facts.span)}",
                span,
                mismatch_hint(type, conflict),
            )

    def map_type(self, name: str) -> Type | None:
        """The type of a map's value as an expression, as far as the pass before found one."""
        facts = self.known.maps[name]
        if facts.kind == "count":
            return INT64
        return facts.value.type()

    def read(self, node: ast.MapRef) -> typed.Expr | None:
        """`@x[key]` as a value."""
        key = self.key(node.name, node.key, node.span)
        if not self.defined(node) or key is None:
            return None
        kind = self.known.maps[node.name].kind
        if kind in ("hist", "lhist"):
            self.error(
                f"{node.name} is a histogram, which has no single value",
                node.span,
                f"print({node.name}) prints all of it",
            )
            return None
        type = self.map_type(node.name)
        return None if type is None else typed.MapGet(type, node.span, node.name, key)


def mismatch_hint(one: Type, other: Type) -> str | None:
    """What to do about two types that do not go together."""
    pair = {str(one), str(other)}
    if pair == {"int64", "uint64"}:
        return f"cast the value, as in ({other})(…)"
    if "string" in {say(one), say(other)} and pair & {"int64", "uint64"}:
        return "str(addr) reads the string at an address"
    return None


def _count(types: tuple[Type, ...]) -> str:
    return "no key" if not types else f"a key of {len(types)} part{'s' if len(types) > 1 else ''}"


def _keys(types: tuple[Type, ...]) -> str:
    return a(types[0]) if len(types) == 1 else f"({', '.join(map(say, types))})"


def _kind(kind: str) -> str:
    return "a plain value" if kind == "scalar" else f"{kind}()"
