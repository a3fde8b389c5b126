"""The texts of `probe` and `func`: known for each site before attaching, and put into the bytecode by the loader where
sites with different ones share a function.
"""

from __future__ import annotations

import enum

from tracer.plan.model import Variant

SITE_WORD_TAG = 0xFEED_FACD
"""Upper half of the constants that stand for words of these texts (SITE_WORD in prelude.h)."""

_MOST_WORDS = 1 << 12


class SiteText(enum.IntEnum):
    """The number of a text's first word."""

    PROBE = 0
    FUNCTION = _MOST_WORDS

    def of(self, variant: Variant) -> bytes:
        """The text at the sites of a variant."""
        text = variant.probe if self is SiteText.PROBE else variant.function
        return (text or "").encode(errors="surrogateescape")


def site_word(variant: Variant, number: int) -> int:
    """The word that `SITE_WORD(number)` stands for: eight bytes of the text in memory's order, zeros behind its end."""
    which = SiteText.FUNCTION if number >= _MOST_WORDS else SiteText.PROBE
    at = 8 * (number - which)
    return int.from_bytes(which.of(variant)[at : at + 8].ljust(8, b"\0"), "little")
