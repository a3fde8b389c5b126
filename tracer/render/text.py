"""Results as text, in bpftrace's format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from tracer.lang.aggregations.aggregation import Series
from tracer.lang.aggregations.registry import AGGREGATIONS
from tracer.lang.fixed_width import quotient
from tracer.lang.types import EnumType, IntType, PointerType
from tracer.render.renderer import Renderer

if TYPE_CHECKING:
    from tracer.lang.typed import MapDecl
    from tracer.lang.types import Type
    from tracer.render.value_text import Show
    from tracer.results.values import MapSnapshot, MapValue


class TextRenderer(Renderer):
    """Text for people. Only results are here; the command line prints messages on stderr."""

    def show(self, type: Type) -> Show:
        return self.text.of(type)

    def shape(self, number: int, type: Type) -> Show:
        return (self.text.raw if self.own_texts is not None and self.own_texts.printed(number) else self.text).of(type)

    def printf(self, texts: Iterable[bytes]) -> None:
        """Prints them as they are."""
        self.write(b"".join(texts))

    def print_values(self, shown: Iterable[bytes]) -> None:
        """A line for each."""
        self.write(b"".join([b"%b\n" % text for text in shown]))

    def print_time(self, text: bytes) -> None:
        """Prints it as it is."""
        self.write(text)

    def maps(self, snapshots: Iterable[MapSnapshot]) -> None:
        """Two newlines end the text of the run, whether a map follows or not."""
        self.write(b"\n\n")
        super().maps(snapshots)

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        """`@name[key]: value`, a line for each key."""
        decl = snapshot.decl
        name = decl.name.encode()
        values, own_parts = self.text, (False,) * len(decl.key)
        if self.own_texts is not None:
            own_parts = self.own_texts.key(decl.name, len(decl.key))
            values = self.text.raw if self.own_texts.value(decl.name) else self.text
        key_text, scalar = self.text.key(decl.key, own_parts=own_parts), values.of(decl.value)
        for key, value in self.ordered(snapshot, top):
            shown = b"%b[%b]" % (name, key_text(key)) if decl.key else name
            self.write(b"%b:%b\n" % (shown, _map_value(decl, value, div or 1, scalar)))


def _map_value(decl: MapDecl, value: MapValue, div: int, scalar: Show) -> bytes:
    """The text after the colon."""
    if decl.kind == "scalar":
        plain = isinstance(decl.value, IntType) and not isinstance(decl.value, PointerType | EnumType)
        return b" " + (b"%d" % quotient(cast(int, value), div) if plain else scalar(value))
    shown = AGGREGATIONS[decl.kind].parts(decl, value, div)
    if isinstance(shown, list):
        from tracer.render.histogram import text_histogram

        return b"\n" + text_histogram(decl, shown)
    if isinstance(shown, Series):
        from tracer.render.series import text_series

        return b"\n" + text_series(shown)
    if isinstance(shown, dict):
        return b" { %b }" % b", ".join(b".%b = %d" % (name.encode(), number) for name, number in shown.items())
    return b" %d" % shown
