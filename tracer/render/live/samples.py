"""A live table of samples: the functions in which programs ran, however many addresses of each were met."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING, Any

from tracer.render.live.renderer import LiveTable
from tracer.render.stacks.collect import Collector
from tracer.render.value_text import NUMBERS

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.results.values import MapSnapshot


class SampleTable(LiveTable):
    """The table of a map of stacks, whose innermost frame is where a sample was taken; `hz` samples a second."""

    def __init__(self, hz: int, rows: int, program: Program, symbolizer: Any, *rest: Any) -> None:
        super().__init__(False, rows, program, symbolizer, *rest, hz=hz)
        self._collector = Collector(program, symbolizer or NUMBERS, self.text)

    def _values(self, snapshot: MapSnapshot) -> dict[bytes, object]:
        counts: dict[bytes, int] = {}
        for sample in self._collector.profile(snapshot, 0, 0).samples:
            frame = sample.frames[-1]
            file = f" ({os.path.basename(frame.path)})" if frame.path else ""
            key = " ".join([frame.name + file, *sample.labels]).encode("utf-8", "surrogateescape")
            counts[key] = counts.get(key, 0) + sample.value
        return dict(counts)
