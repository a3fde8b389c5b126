"""What a renderer writes to."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """A stream of bytes: a file, or `cli.output`."""

    def write(self, data: bytes, /) -> object:
        """Takes some output."""

    def flush(self) -> object:
        """Nothing more comes for now."""
