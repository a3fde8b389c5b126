"""The colours of flame graphs: one for each kind of frame, in shades by which neighbours can be told apart."""

from __future__ import annotations

import colorsys
from zlib import crc32

from tracer.render.stacks.profiles import KINDS, Kind

_SHADES = 6
_OF_KIND: dict[Kind, tuple[int, float]] = {
    "user": (14, 0.88),
    "library": (46, 0.86),
    "kernel": (268, 0.60),
    "jit": (130, 0.48),
    "python": (206, 0.72),
    "label": (220, 0.10),
    "other": (30, 0.38),
}
"""Hue in degrees, and saturation."""

WORDS: dict[Kind, str] = {
    "user": "program",
    "library": "library",
    "kernel": "kernel",
    "jit": "just-in-time code",
    "python": "Python",
    "label": "part of the key",
    "other": "unknown",
}


def _colour(hue: int, saturation: float, shade: int) -> str:
    red, green, blue = colorsys.hls_to_rgb(hue / 360, 0.62 + 0.035 * shade, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


PALETTE = [_colour(*_OF_KIND[kind], shade) for kind in KINDS for shade in range(_SHADES)]
"""The shades of each kind, in the order of `KINDS`."""


def place(name: str, kind: Kind) -> int:
    """The place of a frame's colour in `PALETTE`: the same in every picture."""
    return KINDS.index(kind) * _SHADES + crc32(name.encode("utf-8", "surrogateescape")) % _SHADES


def of_kind(kind: Kind) -> str:
    """The colour that stands for a kind."""
    return PALETTE[KINDS.index(kind) * _SHADES + _SHADES // 2]


def of_change(value: int, before: int) -> str:
    """Red for what grew, blue for what shrank, the more of it the stronger."""
    most = max(value, before)
    share = (value - before) / most if most else 0.0
    faded = round(235 - 165 * abs(share))
    return f"#eb{faded:02x}{faded:02x}" if share > 0 else f"#{faded:02x}{faded:02x}eb" if share < 0 else "#ebebeb"
