"""What a session hands to the outside, and what it lost: plain values that `render` turns into text or JSON."""

from __future__ import annotations

from typing import NamedTuple

from tracer.dataclass import dataclass, names
from tracer.lang.types import Value
from tracer.results.values import MapSnapshot


class PrintfEvent(NamedTuple):
    """`printf`: index into `Program.formats` and the values."""

    format: int
    args: tuple[Value, ...]


class ValueEvent(NamedTuple):
    """`print(expr)`: index into `Program.shapes` and the value."""

    shape: int
    value: Value


class MapEvent(NamedTuple):
    """`print(@x, top, div)`: of the map as `snapshot` has it, or where that is None as it is when this is handled."""

    map: str
    top: int
    div: int
    snapshot: MapSnapshot | None = None


class TimeEvent(NamedTuple):
    """`time(fmt)`: index into `Program.formats`."""

    format: int


class ExitEvent(NamedTuple):
    """`exit(code)`: no hit counts after the one that said it."""

    code: int


Event = PrintfEvent | ValueEvent | MapEvent | TimeEvent | ExitEvent


@dataclass(slots=True)
class Loss:
    """What makes an answer incomplete: exact counts per cause.

    `events` did not fit the buffer between kernel and tracer; `unreadable` hits ended early because an argument or
    string could not be read; `truncated` strings were cut; `keys` updates found their map full; `loops` were cut at the
    limit; `stacks` could not be walked; `crowded` hits ended early because a long string was cut by the kernel, or took
    the room of what was wanted.
    """

    events: int = 0
    unreadable: int = 0
    truncated: int = 0
    keys: int = 0
    loops: int = 0
    stacks: int = 0
    crowded: int = 0

    def __add__(self, other: Loss) -> Loss:
        return Loss(*(getattr(self, name) + getattr(other, name) for name in names(self)))

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in names(self))
