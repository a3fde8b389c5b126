"""The facts about maps and variables that are known while types are inferred.

Each pass over the program collects facts from every use and reads the types that the pass before found, until two
passes agree. So a clause may read a map that a later clause assigns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tracer.dataclass import dataclass, field, replace
from tracer.errors import NOWHERE, Span
from tracer.lang.types import IntType, PointerType, Type, VariablePointer
from tracer.lang.types.combine import LITERAL, anywhere, join


@dataclass(slots=True)
class ValueFacts:
    """The type of something that is assigned to.

    `strong` is joined from plain assignments, `weak` from `+=` and `++`, which never conflict with them. `span` is the
    first assignment. A `fixed` type was declared and never grows. `writes` counts the assignments.
    `targeted`: there is one, of whatever value.
    """

    strong: Type | None = None
    weak: IntType | None = None
    span: Span | None = None
    assigned: bool = False
    fixed: bool = False
    writes: int = 0
    targeted: bool = False

    def add(self, type: Type, span: Span) -> Type | None:
        """A plain assignment of a value of this type; gives the type it conflicts with, if any."""
        self.writes += 1
        if self.span is None:
            self.span = span
        if self.strong is None:
            self.strong = type
            return None
        if self.fixed and isinstance(type, IntType) and isinstance(self.strong, IntType):
            for one, other in ((type, self.strong), (self.strong, type)):
                if isinstance(one, VariablePointer) and isinstance(other, PointerType) and one != other:
                    address = replace(one, target=other.target)
                    both = join(other, address) if isinstance(other, VariablePointer) else None
                    self.strong = both or (address if self.writes == 1 else anywhere(address))
                    break
            return None
        common = join(self.strong, type)
        if common is None and isinstance(type, PointerType) and isinstance(self.strong, IntType):
            # `@x = @x + 1` is an integer until a pass knows that `@x` is a pointer.
            self.strong, integer = type, self.strong
            return integer
        if common is None or (self.fixed and common != self.strong):
            return self.strong
        self.strong = common
        return None

    def add_weak(self, type: IntType, span: Span) -> None:
        """A compound assignment of such a value."""
        self.writes += 1
        if self.span is None:
            self.span = span
        common = type if self.weak is None else join(self.weak, type)
        assert isinstance(common, IntType)
        self.weak = common

    def type(self) -> Type | None:
        """The type so far."""
        if self.strong is None:
            return self.weak
        if self.weak is None or self.fixed or not isinstance(self.strong, IntType):
            return self.strong
        if isinstance(self.strong, VariablePointer):
            return replace(self.strong, moved=True)
        return self.strong if isinstance(self.strong, PointerType) else join(self.strong, self.weak)

    @property
    def is_unknown(self) -> bool:
        """Whether no statement assigns it, and no type was declared."""
        return not self.targeted and self.strong is None

    def identity(self) -> object:
        """Equal if another pass would change nothing."""
        return self.type(), self.assigned


@dataclass(slots=True)
class MapFacts:
    """A map: the types of its key's parts, what it holds, the histogram's parameters."""

    name: str
    key: tuple[Type, ...] | None = None
    key_span: Span | None = None
    kind: str | None = None
    kind_span: Span | None = None
    value: ValueFacts = field(default_factory=ValueFacts)
    parameters: tuple[int, ...] = ()

    def type(self) -> Type | None:
        """The type of a value of the map as an expression, as far as it is known."""
        return self.value.type()

    def identity(self) -> object:
        """Equal if another pass would change nothing."""
        return self.key, self.kind, self.value.identity(), self.parameters


@dataclass(slots=True)
class Facts:
    """The facts of one pass. A variable is known by the clause and the statement that declares it.

    `settled` are maps and variables that only depend on themselves (`@x = @x + 1`, `@y = max(@y + 1)`): they start as
    integers.
    """

    maps: dict[str, MapFacts] = field(default_factory=dict)
    variables: dict[Hashable, ValueFacts] = field(default_factory=dict)
    settled: frozenset[Hashable] = frozenset()

    def map(self, name: str) -> MapFacts:
        """The facts of a map, made at its first use."""
        if name not in self.maps:
            self.maps[name] = MapFacts(name, value=self._start(name))
        return self.maps[name]

    def variable(self, key: Hashable) -> ValueFacts:
        """The facts of a variable, made at its first use."""
        if key not in self.variables:
            self.variables[key] = self._start(key)
        return self.variables[key]

    def _start(self, key: Hashable) -> ValueFacts:
        return ValueFacts(weak=LITERAL) if key in self.settled else ValueFacts()

    def identity(self) -> object:
        """Equal if another pass would change nothing."""
        maps = {name: facts.identity() for name, facts in self.maps.items()}
        return maps, {key: facts.identity() for key, facts in self.variables.items()}

    def unsettled(self) -> frozenset[Hashable]:
        """The maps and variables that are assigned but still have no type once nothing changes any more."""
        values: dict[Hashable, ValueFacts] = dict(self.variables)
        values.update((name, facts.value) for name, facts in self.maps.items() if facts.kind != "count")
        return frozenset(key for key, facts in values.items() if facts.assigned and facts.type() is None)


def joined(name: str, parts: Sequence[Facts]) -> MapFacts | None:
    """The combined facts of a map from separate parts of the program; None if there are none."""
    found_facts = [part.maps[name] for part in parts if name in part.maps]
    if not found_facts:
        return None
    whole = MapFacts(name)
    for facts in found_facts:
        if whole.key is None or whole.key_span is None:
            whole.key, whole.key_span = facts.key, facts.key_span
        elif facts.key is not None and len(facts.key) == len(whole.key):
            common = [join(one, other) for one, other in zip(whole.key, facts.key, strict=True)]
            if None not in common:
                whole.key = tuple(type for type in common if type is not None)
        if whole.kind is None:
            whole.kind, whole.kind_span, whole.parameters = facts.kind, facts.kind_span, facts.parameters
        whole.value.assigned |= facts.value.assigned
        span = facts.value.span or NOWHERE
        if facts.value.strong is not None:
            whole.value.add(facts.value.strong, span)
        if facts.value.weak is not None:
            whole.value.add_weak(facts.value.weak, span)
    return whole
