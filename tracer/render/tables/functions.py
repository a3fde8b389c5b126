"""A map of stacks by function: how often each was the innermost, and how often it was there at all."""

from __future__ import annotations

import os.path
from collections import Counter
from typing import TYPE_CHECKING, Any

from tracer.render.stacks.renderer import FoldedRenderer

if TYPE_CHECKING:
    from tracer.lang.typed import Program
    from tracer.render.stacks.profiles import Frame, Profile

_Row = tuple[tuple[str, ...], str, str]
"""The other parts of the key, the function, and the file that it is in."""


class FunctionTable(FoldedRenderer):
    """The functions, the one that was the innermost most often first; of these `rows`, where that is not None."""

    def __init__(self, rows: int | None, program: Program, *rest: Any) -> None:
        super().__init__(program, *rest)
        self._rows = rows

    def take(self, profile: Profile) -> None:
        """Writes a table of it. A function that is in a stack twice is there once."""
        innermost: Counter[_Row] = Counter()
        there: Counter[_Row] = Counter()
        for sample in profile.samples:
            rows = [_row(sample.labels, frame) for frame in sample.frames]
            innermost[rows[-1]] += sample.value
            for row in dict.fromkeys(rows):
                there[row] += sample.value
        samples = sum(innermost.values())
        lines = [f"{'self':>9}{'':8}{'total':>9}{'':8}  function"]
        for row in sorted(there, key=lambda row: (-innermost[row], -there[row], row))[: self._rows]:
            numbers = "".join([_share(count[row], samples) for count in (innermost, there)])
            lines.append(f"{numbers}  {', '.join((*row[0], row[1]))}{f'  {row[2]}' if row[2] else ''}")
        lines.append(f"{samples:>9}{'':8}{'':9}{'':8}  samples")
        self.write("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n")


def _row(labels: tuple[str, ...], frame: Frame) -> _Row:
    return labels, frame.name, os.path.basename(frame.path)


def _share(count: int, samples: int) -> str:
    return f"{count:>9}{f'{100 * count / samples:.1f}%' if count else '':>8}"
