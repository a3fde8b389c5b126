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
    words: dict[int, bytes]

    @property
    def cookies(self) -> dict[int, int]:
        """The index of each variant's texts in the table."""
        return {variant: index for index, variant in enumerate(self.words)}


def site_texts(variants: Sequence[Variant]) -> SiteTexts:
    """The texts of these variants, each text as long as the longest and closed by a NUL."""
    probes = [(variant.probe or "").encode(errors="surrogateescape") for variant in variants]
    functions = [(variant.function or "").encode(errors="surrogateescape") for variant in variants]
    probe = max((len(text) // 8 + 1 for text in probes), default=0)
    function = max((len(text) // 8 + 1 for text in functions), default=0)
    words = {
        variant.id: name.ljust(8 * probe, b"\0") + holder.ljust(8 * function, b"\0")
        for variant, name, holder in zip(variants, probes, functions, strict=True)
    }
    return SiteTexts(probe, function, words)
