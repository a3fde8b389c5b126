"""The blocks and functions around a place of the code, and the entries of the variables in each.

Source: DWARF 5, 3.3 (functions and inlined copies), 3.5 (lexical blocks), 4.1 (variables).
"""

from __future__ import annotations

from collections.abc import Iterator

from tracer.dataclass import NamedTuple
from tracer.resolve.dwarf.functions import name_of, origins
from tracer.resolve.dwarf.units import constants as dw
from tracer.resolve.dwarf.units.ranges import covers
from tracer.resolve.dwarf.units.unit import Entry

_BLOCKS = (dw.LEXICAL_BLOCK, dw.INLINED)
_VARIABLES = (dw.PARAMETER, dw.VARIABLE)
_DEEPEST = 256


class Found(NamedTuple):
    """A variable in scope: its entry, the block or function right around it, the function that declares it, and how
    many calls further out that is.
    """

    entry: Entry
    scope: Entry
    function: str
    level: int


def scopes_at(function: Entry, address: int) -> list[Entry]:
    """The function, and the blocks and inlined functions in it that hold an address, from the outside to the inside."""
    found = [function]
    while len(found) < _DEEPEST:
        inside = next((each for each in found[-1].children() if each.tag in _BLOCKS and covers(each, address)), None)
        if inside is None:
            break
        found.append(inside)
    return found


def scopes_to(function: Entry, copy: int) -> list[Entry]:
    """The function and the scopes in it down to the inlined copy of that number."""
    found: list[tuple[int, Entry]] = []
    for at, depth, abbreviation in function.unit.walk(start=function.at):
        while found and found[-1][0] >= depth:
            found.pop()
        if depth == 0 or abbreviation.tag in _BLOCKS:
            entry = function.unit.entry(at)
            found.append((depth, entry))
            if entry.id == copy:
                break
    return [entry for _, entry in found]


def variables_in(scopes: list[Entry]) -> Iterator[Found]:
    """The variables with a name, from the inside to the outside."""
    level = 0
    blocks: dict[int, list[Entry]] = {}
    for number in range(len(scopes) - 1, -1, -1):
        own = next(each for each in scopes[number::-1] if each.tag != dw.LEXICAL_BLOCK)
        if number == len(scopes) - 1 or scopes[number + 1].tag == dw.INLINED:
            blocks = abstract_blocks(own)
        for entry in _declared(scopes[number], blocks):
            if name_of(entry) and not _is_declaration(entry):
                yield Found(entry, scopes[number], name_of(own), level)
        level += scopes[number].tag == dw.INLINED


def abstract_blocks(function: Entry) -> dict[int, list[Entry]]:
    """The variables of the blocks of what a function is a copy of, by each of these variables."""
    origin = function.follow(dw.ABSTRACT_ORIGIN)
    found: dict[int, list[Entry]] = {}
    left = [] if origin is None else [origin]
    while left:
        inside = list(left.pop().children())
        left += [each for each in inside if each.tag == dw.LEXICAL_BLOCK]
        variables = [each for each in inside if each.tag in _VARIABLES]
        found.update((each.id, variables) for each in variables)
    return found


def _declared(scope: Entry, blocks: dict[int, list[Entry]]) -> list[Entry]:
    """The variables right in a scope. A copy of a function need not say those again of which nothing is left."""
    own = [each for each in scope.children() if each.tag in _VARIABLES]
    said = {each.id for entry in own for each in origins(entry)}
    origin = scope.follow(dw.ABSTRACT_ORIGIN)
    every = [] if origin is None else [each for each in origin.children() if each.tag in _VARIABLES]
    every += [each for id in said for each in blocks.get(id, ()) if each not in every]
    return own + [each for each in {each.id: each for each in every}.values() if each.id not in said]


def _is_declaration(entry: Entry) -> bool:
    """Whether it is `extern int n;` in a function."""
    return dw.DECLARATION in entry and all(dw.LOCATION not in each for each in origins(entry))
