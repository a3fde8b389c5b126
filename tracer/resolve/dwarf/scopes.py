"""The scope of an entry is the namespaces and classes that it stands in; it tells the definitions of a name apart.

Source: DWARF 5, 3.2.2 (namespaces), 5.7.1 (structures that are defined elsewhere than declared).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tracer.resolve.dwarf.functions import origin
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.entries import Entries
from tracer.resolve.dwarf.units.names import named
from tracer.resolve.dwarf.units.unit import Entry

_ENCLOSING = frozenset((*dw.RECORDS, dw.NAMESPACE, dw.ENUMERATION, dw.SUBPROGRAM))
_MOST_SCOPES = 24
_MOST_WALKED = 1 << 24
"""The most bytes of units that are gone through for the definitions of one name."""


def scope(entry: Entry) -> tuple[str, ...]:
    """The names of what encloses an entry, from the outside to the inside."""
    names: list[str] = []
    for _ in range(_MOST_SCOPES):
        entry = origin(entry)  # it may stand elsewhere than what it defines was declared
        parents: list[tuple[int, int]] = []
        for offset, depth, abbreviation in entry.unit.walk(near=entry.offset):
            while parents and parents[-1][0] >= depth:
                parents.pop()
            if offset >= entry.offset:
                break
            if abbreviation.tag in _ENCLOSING:
                parents.append((depth, offset))
        if not parents:
            break
        entry = entry.unit.entry(parents[-1][1])
        names.append(entry.text() or origin(entry).text() or "(anonymous namespace)")
    return tuple(names[::-1])


def definitions(entries: Entries, name: str, tags: frozenset[int]) -> Iterator[Entry]:
    """The entries of a file that define a name, as many as can be found in a moment."""
    walked = 0
    for entry in named(entries, name, tags):
        yield entry
        walked += entry.unit.end - entry.unit.first
        if walked > _MOST_WALKED:
            return


def shape(record: Entry) -> Hashable:
    """A key that is equal for structs that are defined alike: size, and names, places and types of members."""
    return record.tag, record.number(dw.BYTE_SIZE), tuple(_part(member) for member in record.children())


def _part(member: Entry) -> Hashable:
    told = [member.raw(name) for name in (dw.MEMBER_LOCATION, dw.DATA_BIT_OFFSET, dw.BIT_OFFSET, dw.BIT_SIZE)]
    of = member.follow(dw.TYPE)
    return (member.text(), *[value and value[1] for value in told], of and (of.tag, of.text()))
