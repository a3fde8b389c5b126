"""Stacks in lines, as the makers of flame graphs take them: `comm;main;work;malloc 12`, the outermost frame first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracer.render.stacks.profiles import printable

if TYPE_CHECKING:
    from tracer.render.stacks.profiles import Frame, Page, Profile

_NOTHING = "-"


def document(profiles: Sequence[Profile], page: Page) -> bytes:
    """The lines of all profiles. Of several, each line begins with its map."""
    return b"".join([lines(profile, profile.name if len(profiles) > 1 else None) for profile in profiles])


def lines(profile: Profile, first: str | None = None) -> bytes:
    """A line for each stack, with `first` before all its frames. Stacks of the same names are one line."""
    values: Counter[str] = Counter()
    for sample in profile.samples:
        names = [f"{frame.name}{_mark(frame)}" for frame in sample.path]
        values[";".join(map(_safe, names if first is None else [first, *names]))] += sample.value
    every = sorted(values.items(), key=lambda item: (item[1], item[0]))
    return "".join([f"{stack} {value}\n" for stack, value in every]).encode()


def _mark(frame: Frame) -> str:
    """What perf's own converter puts behind the names of the kernel; what it maps into programs is no part of it."""
    return "_[k]" if frame.kind == "kernel" and not frame.path.startswith("[v") else ""


def _safe(name: str) -> str:
    """The text with colons for semicolons, as perf's own converter has it."""
    return printable(name).replace(";", ":") or _NOTHING
