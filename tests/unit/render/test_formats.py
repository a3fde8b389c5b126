"""What an output format costs: one class in a module of its own, and a line in the table."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import get_args

import pytest

from tests.typed_ir import clause, map_of, program
from tracer import choices, render
from tracer.cli.options import Format
from tracer.lang.types import INT64, UINT64, Type
from tracer.render.renderer import Renderer
from tracer.render.value_text import Show
from tracer.results.events import MapEvent, ValueBatch, ValueEvent
from tracer.results.order import ordered
from tracer.results.store import LocalMaps
from tracer.results.values import MapSnapshot


class CsvRenderer(Renderer):
    """Rows of values, one for each key of a map."""

    def show(self, type: Type) -> Show:
        return self.text.of(type)

    def printf(self, texts: Iterable[bytes]) -> None:
        self.write(b"".join(texts))

    def print_values(self, shown: Iterable[bytes]) -> None:
        self.write(b"".join(b"%b\n" % text for text in shown))

    def print_time(self, text: bytes) -> None:
        self.write(text)

    def print_map(self, snapshot: MapSnapshot, top: int, div: int) -> None:
        key, value = self.text.key(snapshot.decl.key, b","), self.show(snapshot.decl.value)
        for entry in ordered(snapshot, top):
            self.write(b"%b,%b\n" % (key(entry[0]), value(entry[1])))


def test_a_format_is_a_class_and_a_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tracer.render.csv")
    module.CsvRenderer = CsvRenderer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(choices.RENDERERS, "csv", "CsvRenderer")
    made = program([clause([])], [map_of("@", "count", UINT64, UINT64)], [], [INT64])
    out = io.BytesIO()
    store = LocalMaps(made)
    renderer = render.renderer_of("csv")(made, None, out)
    for key in ((2, 3), (1, 2), (2, 3)):
        store.aggregate("@", key, "count", 0)
    renderer.attached(1)
    renderer.event(ValueEvent(0, 7), store)
    renderer.event(ValueBatch(0, [8, 9]), store)
    renderer.event(MapEvent("@", 1, 0), store)
    renderer.maps([store.snapshot("@")])
    assert out.getvalue() == b"7\n8\n9\n2,3,2\n1,2,1\n2,3,2\n"


def test_every_format_of_the_table_has_its_renderer_and_is_an_option() -> None:
    assert list(get_args(Format)) == list(choices.RENDERERS) == ["text", "json"]
    for name in choices.RENDERERS:
        assert issubclass(render.renderer_of(name), Renderer)
