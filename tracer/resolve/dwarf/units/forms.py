"""Attributes are written in forms, which have sizes; tables of abbreviations say which forms an entry has.

Sources: DWARF 5, 7.5.3 (abbreviation tables), 7.5.5 and 7.5.6 (forms); GNU's forms of split DWARF and dwz.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from tracer.dataclass import NamedTuple
from tracer.resolve.dwarf.leb import leb
from tracer.resolve.dwarf.units import constants as dw

LEB, TEXT, SIBLING, INDIRECT, EXPRESSION = -1, -2, -8, -7, -6
"""Ways to pass over a value that says its own size; others are the blocks' below."""

BLOCK_WIDTHS = {-3: 1, -4: 2, -5: 4}
_BLOCKS = {0x0A: -3, 0x03: -4, 0x04: -5, 0x09: EXPRESSION, 0x18: EXPRESSION}
_FIXED = {
    0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x19: 0, 0x1C: 4, 0x1E: 16,
    0x20: 8, 0x21: 0, 0x24: 8, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
_OF_OFFSET_SIZE = frozenset((0x0E, 0x17, 0x1D, 0x1F, 0x1F20, 0x1F21))
_LEBS = frozenset((0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02))

SDATA, FLAG_PRESENT, IMPLICIT, STRING, REF_ADDR, ADDR = 0x0D, 0x19, 0x21, 0x08, 0x10, 0x01
DATA8 = 0x07
STRP, LINE_STRP, REF_SIG8, INDIRECTLY, LOCLISTX, RNGLISTX, REF4 = 0x0E, 0x1F, 0x20, 0x16, 0x22, 0x23, 0x13
STRX = frozenset((0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02))
ADDRX = frozenset((0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01))
REFERENCES = frozenset((0x11, 0x12, 0x13, 0x14, 0x15))
STRP_ALT, REF_ALT = frozenset((0x1D, 0x1F21)), frozenset((0x1C, 0x24, 0x1F20))

_NUMBER = rb"[\x80-\xff]*[\0-\x7f]"
_ABBREVIATION = re.compile(
    rb"(?!\0)(%b)(%b)([\0\1])((?:(?!\0\0)%b(?:\x21%b|(?!\x21)%b))*)\0\0" % ((_NUMBER,) * 5), re.S
)
"""Code, tag, whether there are children, and pairs of attribute and form; DW_FORM_implicit_const has its value there.
A table has thousands of pairs, and few of them are ever asked for.
"""


_NAMED = bytes((dw.NAME,))
_DECLARED = (dw.DECLARATION, FLAG_PRESENT, 0)
_DECLARES = bytes(_DECLARED[:2])


class Sizes(Protocol):
    """The numbers of a unit that the sizes of forms depend on."""

    version: int
    address_size: int
    offset_size: int


class Abbreviation(NamedTuple):
    """The meaning of a code: the tag, whether entries have children, (attribute, form, constant) each, and what is
    skipped with them: sizes, and negative numbers for what says its own size.
    """

    tag: int
    children: bool
    attributes: tuple[tuple[int, int, int], ...]
    skips: tuple[int, ...]


def skip_of(form: int, unit: Sizes) -> int:
    """The way in which a value in that form is passed over."""
    if form in _FIXED:
        return _FIXED[form]
    if form in _LEBS:
        return LEB
    if form == STRING:
        return TEXT
    if form in _BLOCKS:
        return _BLOCKS[form]
    if form in _OF_OFFSET_SIZE:
        return unit.offset_size
    if form == ADDR:
        return unit.address_size
    if form == REF_ADDR:
        return unit.address_size if unit.version < 3 else unit.offset_size
    if form == INDIRECTLY:
        return INDIRECT
    raise ValueError(f"form {form:#x} is unknown")


class Abbreviations(dict[int, Abbreviation]):
    """A unit's abbreviations by their codes, each decoded when it is asked for. Raises `ValueError` for a table that is
    damaged.
    """

    def __init__(self, data: bytes, offset: int, unit: Sizes) -> None:
        super().__init__()
        self.version, self.address_size, self.offset_size = unit.version, unit.address_size, unit.offset_size
        self._data, self._offset = data, offset
        # One match after the other would cost many times as much.
        self._rest: Iterator[re.Match[bytes]] = _ABBREVIATION.finditer(data, offset)
        self._raw: dict[int, tuple[int, bytes, bytes]] = {}

    def _read(self, wanted: int = -1) -> None:
        """Goes on through the table, to a code or to the end."""
        for match in self._rest:
            if match.start() != self._offset:
                break
            code, tag, children, pairs = match.groups()
            number = code[0] if len(code) == 1 else leb(code, 0)[0]
            self._raw[number] = tag[0] if len(tag) == 1 else leb(tag, 0)[0], children, pairs
            self._offset = match.end()
            if number == wanted:
                return
        self._rest = iter(())
        if self._data[self._offset]:
            raise ValueError("a table of abbreviations is damaged")

    def __missing__(self, code: int) -> Abbreviation:
        if code not in self._raw:
            self._read(code)
        tag, children, pairs = self._raw[code]
        attributes, skips, position = [], [0], 0
        while position < len(pairs):
            name, position = leb(pairs, position)
            form, position = leb(pairs, position)
            constant = 0
            if form == IMPLICIT:
                constant, position = leb(pairs, position, signed=True)
            attributes.append((name, form, constant))
            skip = SIBLING if name == dw.SIBLING and form == REF4 else self.skip(form)
            if skip >= 0 and skips[-1] >= 0:
                skips[-1] += skip
            else:
                skips.append(skip)
        abbreviation = self[code] = Abbreviation(tag, children != b"\0", tuple(attributes), tuple(skips))
        return abbreviation

    def skip(self, form: int) -> int:
        """The way in which a value in that form is passed over, as `skip_of` gives it."""
        return skip_of(form, self)

    def names(self, tags: frozenset[int], declared: bool, wanted: int) -> tuple[list[tuple[int, int, int]], set[int]]:
        """The codes of entries with one of these tags (declarations only with `declared`), each with the bytes from it
        to the attribute `wanted`, and that one's form. Also the forms of names whose place depends on what stands
        before them.
        """
        self._read()
        codes, loose = [], set[int]()
        for code, (tag, _, pairs) in self._raw.items():
            if tag not in tags:
                continue
            if not declared and _DECLARES in pairs and _DECLARED in self[code].attributes:
                continue
            if wanted == dw.NAME and pairs[:1] == _NAMED and pairs[1] < 0x80:
                codes.append((code, 0, pairs[1]))
                continue
            distance: int | None = 0
            for attribute, form, _ in self[code].attributes:
                if attribute == wanted:
                    if distance is not None:
                        codes.append((code, distance, form))
                    else:
                        loose.add(form)
                elif distance is not None:
                    skip = self.skip(form)
                    distance = distance + skip if skip >= 0 else None
        return codes, loose
