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
    scopes = [function]
    while len(scopes) < _DEEPEST:
        blocks = (child for child in scopes[-1].children() if child.tag in _BLOCKS)
        inside = next((block for block in blocks if covers(block, address)), None)
        if inside is None:
            break
        scopes.append(inside)
    return scopes


def scopes_to(function: Entry, copy: int) -> list[Entry]:
    """The function and the scopes in it down to the inlined copy of that number."""
    chain: list[tuple[int, Entry]] = []
    for place, depth, abbreviation in function.unit.walk(start=function.offset):
        while chain and chain[-1][0] >= depth:
            chain.pop()
        if depth == 0 or abbreviation.tag in _BLOCKS:
            entry = function.unit.entry(place)
            chain.append((depth, entry))
            if entry.id == copy:
                break
    return [entry for _, entry in chain]


def variables_in(scopes: list[Entry]) -> Iterator[Found]:
    """The variables with a name, from the inside to the outside."""
    level = 0
    blocks: dict[int, list[Entry]] = {}
    for number in range(len(scopes) - 1, -1, -1):
        function = next(scope for scope in scopes[number::-1] if scope.tag != dw.LEXICAL_BLOCK)
        if number == len(scopes) - 1 or scopes[number + 1].tag == dw.INLINED:
            blocks = abstract_blocks(function)
        for entry in _declared(scopes[number], blocks):
            if name_of(entry) and not _is_declaration(entry):
                yield Found(entry, scopes[number], name_of(function), level)
        level += scopes[number].tag == dw.INLINED


def abstract_blocks(function: Entry) -> dict[int, list[Entry]]:
    """The variables of the blocks of what a function is a copy of, by each of these variables."""
    origin = function.follow(dw.ABSTRACT_ORIGIN)
    variables_of: dict[int, list[Entry]] = {}
    waiting = [] if origin is None else [origin]
    while waiting:
        inside = list(waiting.pop().children())
        waiting += [entry for entry in inside if entry.tag == dw.LEXICAL_BLOCK]
        variables = [entry for entry in inside if entry.tag in _VARIABLES]
        variables_of.update((variable.id, variables) for variable in variables)
    return variables_of


def _declared(scope: Entry, blocks: dict[int, list[Entry]]) -> list[Entry]:
    """The variables right in a scope. A copy of a function need not say those again of which nothing is left."""
    declared = [child for child in scope.children() if child.tag in _VARIABLES]
    said = {origin.id for entry in declared for origin in origins(entry)}
    origin = scope.follow(dw.ABSTRACT_ORIGIN)
    every = [] if origin is None else [child for child in origin.children() if child.tag in _VARIABLES]
    every += [variable for id in said for variable in blocks.get(id, ()) if variable not in every]
    once = {variable.id: variable for variable in every}
    return declared + [variable for id, variable in once.items() if id not in said]


def _is_declaration(entry: Entry) -> bool:
    """Whether it is `extern int n;` in a function."""
    return dw.DECLARATION in entry and all(dw.LOCATION not in origin for origin in origins(entry))
