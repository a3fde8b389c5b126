"""Attach points that also mean files which processes map later: patterns of paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.kinds.model import AttachPoint
from tracer.kinds.registry import awaits_files

if TYPE_CHECKING:
    from tracer.resolve.files.paths import Found


def meets(point: AttachPoint, file: Found) -> bool:
    """Whether a file that a process has mapped is one that the attach point awaits."""
    from tracer.resolve.files.paths import matches_mapped

    path = point.path if point.apart is None else point.apart[0]
    return awaits_files(point) and matches_mapped(path, file.shown)
