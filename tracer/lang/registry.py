"""Objects by name, of modules that are imported when a name is asked for that is in none of those before.

A program uses a few functions: what the modules of the others would take is a twentieth of a short trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """The objects in the tuple `attribute` of each `module`, by name and alias; the modules that are used most come
    first.

    Who goes through all names, or asks for one that there is not, imports all.
    """

    def __init__(self, *sources: tuple[str, str]) -> None:
        self._constructs: dict[str, T] = {}
        self._sources = list(reversed(sources))

    def __getitem__(self, name: str) -> T:
        while name not in self._constructs and self._sources:
            self._import_next()
        return self._constructs[name]

    def __iter__(self) -> Iterator[str]:
        while self._sources:
            self._import_next()
        return iter(self._constructs)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _import_next(self) -> None:
        for source in self._sources[-1:]:  # another thread may have taken the last one
            module, attribute = source
            for construct in getattr(import_module(module), attribute):
                for name in (construct.name, *getattr(construct, "aliases", ())):
                    self._constructs[name] = construct
            with suppress(ValueError):  # and may have been through the same one meanwhile
                self._sources.remove(source)
