"""Patterns of glob(7) over the bytes of a string: `*`, `?`, `[a-z]`, `[!a-z]`; a slash is a byte like any other."""

from __future__ import annotations

import re
from functools import lru_cache

from tracer.dataclass import dataclass

MOST_PLACES = 62
"""How many bytes a pattern may stand for, stars aside: a state of the match is a bit of 64."""
_BYTE = range(1, 256)


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern: for each of its places which bytes may stand there, as ranges from first to last, and before which
    places, the end included, anything may stand.
    """

    places: tuple[tuple[tuple[int, int], ...], ...]
    stars: frozenset[int]

    def matches(self, text: bytes) -> bool:
        """Whether the whole text is as the pattern says."""
        return _expression(self).fullmatch(text) is not None


@lru_cache(maxsize=64)
def parse_glob(pattern: bytes) -> Glob:
    """The pattern as it is written; a bracket that is not closed is a byte."""
    places: list[tuple[tuple[int, int], ...]] = []
    stars = set()
    position = 0
    while position < len(pattern):
        byte = pattern[position]
        position += 1
        first = position + pattern.startswith((b"!", b"^"), position)
        closing = pattern.find(b"]", first + 1) if byte == ord("[") else -1
        if byte == ord("*"):
            stars.add(len(places))
        elif byte == ord("?"):
            places.append(((_BYTE[0], _BYTE[-1]),))
        elif closing >= 0:
            places.append(_class(pattern[position:closing]))
            position = closing + 1
        else:
            places.append(((byte, byte),))
    return Glob(tuple(places), frozenset(stars))


def _class(inside: bytes) -> tuple[tuple[int, int], ...]:
    """The characters that a pair of brackets means."""
    negated = inside.startswith((b"!", b"^"))
    members: set[int] = set()
    position = int(negated)
    while position < len(inside):
        ranges = inside[position + 1 : position + 2] == b"-" and position + 2 < len(inside)
        members.update(range(inside[position], inside[position + 2 if ranges else position] + 1))
        position += 3 if ranges else 1
    wanted = [byte for byte in _BYTE if (byte in members) != negated]
    firsts = [byte for byte in wanted if byte - 1 not in wanted]
    lasts = [byte for byte in wanted if byte + 1 not in wanted]
    return tuple(zip(firsts, lasts, strict=True))


@lru_cache(maxsize=64)
def _expression(glob: Glob) -> re.Pattern[bytes]:
    """The regular expression of a glob: a part between two stars is taken where it is found first, and a group in a
    look-ahead is never tried again.
    """
    pieces = [b""]
    for number, ranges in enumerate((*glob.places, None)):
        pieces += [b""] if number in glob.stars else []
        if ranges is not None:
            inside = b"".join(b"\\x%02x-\\x%02x" % bounds for bounds in ranges)
            pieces[-1] += b"[%s]" % inside if ranges else b"(?!)"
    first, *between = pieces
    last = between.pop() if between else None
    regex = first + b"".join(b"(?=(.*?%s))\\%d" % (piece, group) for group, piece in enumerate(between, 1))
    return re.compile(regex if last is None else regex + b".*" + last, re.S)
