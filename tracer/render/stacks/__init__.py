"""Output of maps of stacks: the formats of `--stacks` and `tracer flame`.

A format is a module of its name here with one function, `document(profiles, page)`, and a line in `choices.STACKS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tracer.choices import STACKS

if TYPE_CHECKING:
    from tracer.render.stacks.profiles import Page, Profile

LINES = "folded"
"""The one that is text in lines: what else a program prints can stand between them. The others are whole documents."""


def document_of(format: str) -> Callable[[Sequence[Profile], Page], bytes]:
    """The writer of a format; only its module is imported."""
    writer: Callable[[Sequence[Profile], Page], bytes] = import_module(f"{__name__}.{format}").document
    return writer


def format_of(path: str) -> str | None:
    """The format that a file's name ends with."""
    return next((name for name, endings in STACKS.items() if path.endswith(endings)), None)
