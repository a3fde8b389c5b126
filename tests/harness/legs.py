"""In which order the legs of a suite are run ahead of the tests that look at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_Case = TypeVar("_Case")

_LATER = 10


def in_order(legs: Sequence[tuple[_Case, str, str]]) -> list[tuple[_Case, str, str]]:
    """Legs (case, backend, format) in the order of their tests, but JSON on bcc some places later.

    Text and JSON have one BPF object: beside each other both would compile it, and so the second finds it in the cache.
    """
    places = {at: at + (_LATER if leg[1:] == ("bcc", "json") else 0) for at, leg in enumerate(legs)}
    return [legs[at] for at in sorted(places, key=lambda at: places[at])]
