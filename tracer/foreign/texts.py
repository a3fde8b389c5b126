"""Texts of the user as texts of our language."""

from __future__ import annotations

import os


def string(text: str) -> str:
    """A string literal."""
    return '"' + "".join(_escaped(byte, '"\\') for byte in os.fsencode(text)) + '"'


def part(text: str) -> str:
    """A part of an attach point, in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def path(text: str) -> str:
    """The file of an attach point, in quotes."""
    return '"' + "".join(_escaped(byte, '"\\') for byte in os.fsencode(text)) + '"'


def _escaped(byte: int, quoted: str) -> str:
    char = chr(byte)
    if char in quoted:
        return f"\\{char}"
    return char if 32 <= byte < 127 else f"\\x{byte:02x}"
