"""Events and maps in the formats of `-f`; everything is written to a stream that the caller gives."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tracer.choices import RENDERERS

if TYPE_CHECKING:
    from tracer.render.renderer import Renderer


def renderer_of(format: str) -> type[Renderer]:
    """The renderer of a format; only its module is imported."""
    renderer: type[Renderer] = getattr(import_module(f"{__name__}.{format}"), RENDERERS[format])
    return renderer
