"""What a session hands to the outside, and what it lost: plain values that `render` turns into text or JSON."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from tracer.lang.types import Value


class PrintfEvent(NamedTuple):
    """`printf`: index into `Program.formats` and the values."""

    format: int
    args: tuple[Value, ...]


class ValueEvent(NamedTuple):
    """`print(expr)`: index into `Program.shapes` and the value."""

    shape: int
    value: Value


class MapEvent(NamedTuple):
    """`print(@x, top, div)`: the map is read when this event is handled."""

    map: str
    top: int
    div: int


class ClearEvent(NamedTuple):
    """`clear(@x)`."""

    map: str


class ZeroEvent(NamedTuple):
    """`zero(@x)`."""

    map: str


class TimeEvent(NamedTuple):
    """`time(fmt)`: index into `Program.formats`."""

    format: int


class ExitEvent(NamedTuple):
    """`exit(code)`: no hit counts after the one that said it."""

    code: int


Event = PrintfEvent | ValueEvent | MapEvent | ClearEvent | ZeroEvent | TimeEvent | ExitEvent


@dataclass(slots=True)
class Loss:
    """What makes an answer incomplete: exact counts per cause.

    `events` did not fit the buffer between kernel and tracer; `unreadable` hits ended early because an argument or
    string could not be read; `truncated` strings were cut; `keys` updates found their map full; `loops` were cut at the
    limit; `stacks` could not be walked.
    """

    events: int = 0
    unreadable: int = 0
    truncated: int = 0
    keys: int = 0
    loops: int = 0
    stacks: int = 0

    def __add__(self, other: Loss) -> Loss:
        return Loss(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))
