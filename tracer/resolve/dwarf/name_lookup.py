"""The name of a type or of a constant means what the units of the traced code know by it.

A name may have several meanings: types of several namespaces or classes, and types that source files have each for
itself. Where several differ, none of them is chosen.

Sources: DWARF 5, 3.1.1 and 3.2.5 (partial and imported units), 5.7 (structures), 5.8 (enumerations).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress

from tracer.errors import TracerError
from tracer.lang.types import Type
from tracer.lang.types.combine import layout
from tracer.resolve.dwarf import types
from tracer.resolve.dwarf.functions import function_at, origin, units_at
from tracer.resolve.dwarf.scopes import definitions, scope
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.names import named
from tracer.resolve.dwarf.units.unit import Entry, Unit

_TAGS = {
    "struct": frozenset((dw.STRUCTURE, dw.CLASS)),
    "union": frozenset((dw.UNION,)),
    "enum": frozenset((dw.ENUMERATION,)),
    "": frozenset((dw.TYPEDEF, dw.BASE_TYPE, dw.STRUCTURE, dw.CLASS)),
}
"""The tags to search for a name, by the C keyword before it."""

_ENUMERATORS = frozenset((dw.ENUMERATOR,))
_MOST_ADDRESSES = 64
_OF_LTO = "<artificial>"
"""GCC's name of a unit with the code of several source files, which have units of their own for what they define."""


def type_named(entries: Entries, name: str, addresses: Iterable[int], key: str) -> Type | str | None:
    """The type of `struct node`, `enum ns::colour`, `struct ns::Cart<int>` or a typedef's `node_t` for code at these
    addresses. None where there is none; where there are several, which. `key` names the file in `NamedType.place`.
    """
    word, _, rest = name.partition(" ")
    tags = _TAGS.get(word) if rest else None
    meaning = _meant(
        entries, name if tags is None else rest, tags or _TAGS[""], addresses,
        lambda entry: layout(types.type_of(entry, key)), name,
    )  # fmt: skip
    return types.type_of(meaning, key) if isinstance(meaning, Entry) else meaning


def constant_named(entries: Entries, name: str, addresses: Iterable[int]) -> int | str | None:
    """The value of the enumerator `RED`, `colour::RED` or `ns::colour::RED` for code at these addresses. None where
    there is none; where there are several, which.
    """
    meaning = _meant(entries, name, _ENUMERATORS, addresses, _value, name)
    return _value(meaning) if isinstance(meaning, Entry) else meaning


def several(name: str, meanings: Iterable[str]) -> str:
    """The sentence for a name that means something else in each of these places."""
    return f"'{name}' is one thing in {', another in '.join(meanings)}"


def _value(entry: Entry) -> int:
    return entry.signed(dw.CONST_VALUE) or 0


def _meant(
    entries: Entries, name: str, tags: frozenset[int], addresses: Iterable[int], meaning: Callable[[Entry], Hashable],
    asked: str,
) -> Entry | str | None:  # fmt: skip
    within, last = _split(name)
    units = traced_units(entries, addresses)
    typed = definitions(entries, last, tags) if any(unit.type_at for unit in entries.units) else ()
    for group in (
        (entry for unit in units for entry in named(entries, last, tags, unit)),
        (entry for entry in typed if _refer(units, entry.unit.signature)),
        definitions(entries, last, tags),
    ):
        meanings: dict[str, dict[Hashable, Entry]] = {}
        for entry in group:
            names = scope(entry)
            every = (names[:-1], names) if entry.tag == dw.ENUMERATOR else (names,)  # with and without its enum
            ending = within and f"::{within}"
            spelling = next((full for full in map("::".join, every) if f"::{full}".endswith(ending)), None)
            if spelling is not None:
                with suppress(types.UnknownType):
                    key = meaning(entry)
                    meanings.setdefault(spelling, {}).setdefault(key, entry)
        # As in C++, a name alone is first of all that of no namespace.
        chosen = {within: meanings[within]} if within in meanings else meanings
        different = {shape: entry for by_shape in chosen.values() for shape, entry in by_shape.items()}
        if len(different) == 1:
            return next(iter(different.values()))
        if different:
            return _several(asked, last, chosen)
    return None


def _several(asked: str, last: str, meanings: dict[str, dict[Hashable, Entry]]) -> str:
    if len(meanings) > 1:
        *most, final = sorted(f"{scope_name}::{last}" if scope_name else last for scope_name in meanings)
        return f"'{asked}' is several: {', '.join(most)} and {final}; write which one"
    files = {os.path.basename(entry.unit.top.text()) for by_shape in meanings.values() for entry in by_shape.values()}
    what = several(asked, sorted(files)) if "" not in files else f"'{asked}' is several things of one name"
    return f"{what}; write a clause for functions of one source file"


def traced_units(entries: Entries, addresses: Iterable[int]) -> list[Unit]:
    """The units of the code at these addresses, of some where they are many, and what they import."""
    every = sorted(addresses)
    units: dict[int, Unit] = {}
    for address in every[:: len(every) // _MOST_ADDRESSES + 1]:
        for unit in units_at(entries, address):
            if unit.top.text() == _OF_LTO and (function := function_at(entries, address)) is not None:
                unit = origin(function).unit
            if id(unit) not in units:
                units.update({id(imported): imported for imported in _with_imports(unit)})
    return list(units.values())


def _with_imports(unit: Unit) -> Iterator[Unit]:
    """A unit and what dwz moved from it to units that it imports."""
    seen, waiting = set(), [unit]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            for child in current.top.children():
                if child.tag == dw.IMPORTED_UNIT:
                    try:
                        imported = child.follow(dw.IMPORT)
                    except TracerError:
                        continue  # dwz's file is not there
                    waiting += [imported.unit] if imported is not None else []


def _refer(units: list[Unit], signature: int) -> bool:
    """Whether one of these units has a type that stands in a unit of its own."""
    mark = signature.to_bytes(8, "little")
    return signature != 0 and any(unit.data.find(mark, unit.first, unit.end) >= 0 for unit in units)


def _split(name: str) -> tuple[str, str]:
    """Splits a name at its last scope: `ns::Cart<a::b>` into `ns` and `Cart<a::b>`."""
    scope, _, last = name.partition("<")[0].rpartition("::")
    return scope, last + name[len(name.partition("<")[0]) :]
