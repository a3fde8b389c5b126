"""The texts of `probe` and `func`, known for each site before attaching, where sites with different ones share a
function.

The C reads them as words, `SITE_WORD(n)`: those of `probe` first, then those of `func`. Where links carry cookies (a
cookie is the index of the site's texts), the words come from a table and one program serves all; elsewhere the loader
puts them into a copy of the program for each variant.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.dataclass import dataclass
from tracer.plan.model import Variant

SITE_TEXTS = 1000
"""The number of the table's map: beyond those of any program's maps."""

SITE_WORD_TAG = 0xFEED_FACD
"""Upper half of the constants that stand for words where there are no cookies."""


@dataclass(frozen=True, slots=True)
class SiteTexts:
    """The texts of a program: index and words of each variant that needs them."""

    probe_words: int
    function_words: int
    words: dict[int, tuple[int, ...]]

    @property
    def cookies(self) -> dict[int, int]:
        """The index of each variant's texts in the table."""
        return {variant: index for index, variant in enumerate(self.words)}


def site_texts(variants: Sequence[Variant]) -> SiteTexts:
    """The texts of these variants, each text as long as the longest and closed by a NUL."""
    probe = max((len(_bytes(variant.probe)) // 8 + 1 for variant in variants), default=0)
    function = max((len(_bytes(variant.function)) // 8 + 1 for variant in variants), default=0)
    words = {
        variant.id: (*_words(_bytes(variant.probe), probe), *_words(_bytes(variant.function), function))
        for variant in variants
    }
    return SiteTexts(probe, function, words)


def _bytes(text: str | None) -> bytes:
    return (text or "").encode(errors="surrogateescape")


def _words(text: bytes, count: int) -> list[int]:
    padded = text.ljust(8 * count, b"\0")
    return [int.from_bytes(padded[at : at + 8], "little") for at in range(0, 8 * count, 8)]
