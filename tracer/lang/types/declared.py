"""Types that have a name: those of the language, and those that a program declares."""

from __future__ import annotations

from collections.abc import Mapping

from tracer.dataclass import dataclass, field
from tracer.lang.types import INTEGER_TYPES, NamedType, Type


@dataclass(frozen=True, slots=True)
class Declared:
    """`types` by name as C writes it: `struct sock`, `union u`, `enum e`, or a typedef's bare name. `constants` are the
    names of enumerators and of `#define`s of numbers, each with its type.
    """

    types: Mapping[str, Type] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, Type]] = field(default_factory=dict)

    def find(self, name: str) -> Type | None:
        """The type of a name, None where there is none."""
        return INTEGER_TYPES.get(name) or self.types.get(name)

    def complete(self, type: Type) -> Type | None:
        """A type that can be read: what a pointer leads to, looked up where it is known by name alone."""
        return self.find(type.name) if isinstance(type, NamedType) else type
