"""The values of `probe` and its like (`SITE_VALUES`), known for each site before attaching, where sites with different
ones share a function.

The C reads them as words, `SITE_WORD(n)`: those of a text, one of a number, in the order of `SITE_VALUES`; then one for
each array with such keys, the place of the site's key there (`dense`). Where links carry cookies (a
cookie is the index of the site's texts), the words come from a table and one program serves all; elsewhere the loader
puts them into a copy of the program for each variant.

Of the sites of wildcards it is noted whether they were ever hit. The cookie of such a site carries its number too
(`cookie`), and a program sets the byte of that number in the control block at the first hit. Where links carry no
cookies, nothing is noted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from tracer.backends.bcc.maps.dense import Texts, text_of_site
from tracer.backends.bcc.maps.tables import Table
from tracer.dataclass import dataclass
from tracer.kinds.site import SITE_VALUES
from tracer.lang.types import StringType
from tracer.plan.model import Plan, Variant
from tracer.plan.points import points

SITE_TEXTS = 1000
"""The number of the table's map: beyond those of any program's maps."""

SITE_WORD_TAG = 0xFEED_FACD
"""Upper half of the constants that stand for words where there are no cookies."""

_LARGEST, _MOST = 1024, 4096
"""Sites of one attach point, and of the program, up to which it is noted whether each was hit: of thousands nobody
wants to know.
"""

_Place = tuple[str, StringType, Texts]
"""A built-in as a part of a key, the part's type and all its texts."""


@dataclass(frozen=True, slots=True)
class SiteTexts:
    """The texts of a program: index and words of each variant that needs them. `sizes`: the words of each built-in."""

    sizes: dict[str, int]
    places: tuple[_Place, ...]
    words: dict[int, bytes]

    @property
    def count(self) -> int:
        """The number of words of a variant."""
        return sum(self.sizes.values()) + len(self.places)

    @property
    def cookies(self) -> dict[int, int]:
        """The index of each variant's texts in the table."""
        return {variant: index for index, variant in enumerate(self.words)}

    def first(self, built_in: str) -> int:
        """The number of the first word of a built-in."""
        names = [*self.sizes]
        return sum(self.sizes[name] for name in names[: names.index(built_in)])

    def place_word(self, built_in: str, kind: StringType, part: Texts) -> int:
        """The number of the word that is the place of a built-in among these texts."""
        return sum(self.sizes.values()) + self.places.index((built_in, kind, part))


def site_texts(variants: Sequence[Variant], tables: Iterable[Table]) -> SiteTexts:
    """The texts of these variants, each text as long as the longest and closed by a NUL."""
    told = [{name: _bytes(value) for name, value in variant.told.items()} for variant in variants]
    sizes = {
        name: max(len(texts[name]) // 8 for texts in told if name in texts)
        for name in SITE_VALUES if any(name in texts for texts in told)
    }  # fmt: skip
    places = tuple(dict.fromkeys(_places(tables))) if variants else ()
    numbers = [{text: place for place, text in enumerate(part.texts)} for _, _, part in places]
    words = {}
    for variant, texts in zip(variants, told, strict=True):
        # A clause with other maps has no place in this one, and reads none.
        places_here = (
            places_by_text.get(text_of_site(variant, built_in, kind), 0)
            for (built_in, kind, _), places_by_text in zip(places, numbers, strict=True)
        )
        packed = struct.pack(f"={len(places)}Q", *places_here)
        padded = b"".join([texts.get(name, b"").ljust(8 * size, b"\0") for name, size in sizes.items()])
        words[variant.id] = padded + packed
    # Sites that say nothing may differ nevertheless: a return is here a probe at a return, there at an instruction.
    return SiteTexts(sizes, places, words if sizes or places else {})


def _bytes(told: bytes | int) -> bytes:
    """The words of a value."""
    return struct.pack("=Q", told) if isinstance(told, int) else told.ljust(len(told) // 8 * 8 + 8, b"\0")


def _places(tables: Iterable[Table]) -> Iterable[_Place]:
    for table in tables:
        for kind, part in zip(table.decl.key, table.grid.parts if table.grid is not None else (), strict=False):
            if isinstance(part, Texts) and isinstance(kind, StringType):
                yield from ((built_in, kind, part) for built_in in sorted(part.built_ins))


def noted_sites(plan: Plan) -> dict[int, range]:
    """The numbers of sites, from 1 on in their order, of each attach point that has several, by its own number."""
    ranges: dict[int, range] = {}
    following = 1
    for number, point in enumerate(points(plan)):
        count = len(point.sites)
        if 1 < count <= _LARGEST and following + count <= _MOST:
            ranges[number] = range(following, following + count)
            following += count
    return ranges


def cookie(text: int, site: int) -> int:
    """The cookie of a link: the number of the site's texts, and its own (0: it is not noted)."""
    return site << 32 | text
