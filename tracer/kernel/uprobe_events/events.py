"""A trace event to be defined in uprobe_events: its places, and what is fetched there. Pure data."""

from __future__ import annotations

from typing import cast

from tracer.dataclass import dataclass
from tracer.errors import TracerError
from tracer.kinds.site import FileSite, Site

MOST_FETCHES = 128
"""Fetch arguments of one probe at most (MAX_TRACE_ARGS)."""

MOST_PLACES = 2048
"""Of one event. The kernel compares a new place with all that its event has (some 25 ns each), and to close an event
takes it up to 100 ms on 6.18: of ten thousand places, this many to an event, the first takes 0.25 s and the second 0.5.
"""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch argument without its name: the place in the kernel's notation, and the type."""

    place: str
    type: str

    beside = False
    """Whether it is no field: the mode of the program, which samples have behind the event (PERF_SAMPLE_REGS_USER)."""

    def name(self, number: int) -> str:
        """The name of the field that holds it, which is the event's fetch argument of that number."""
        return f"f{number}"

    @property
    def is_string(self) -> bool:
        """Whether its value stands in the event's string buffer."""
        return self.type == "string"

    @property
    def is_dynamic(self) -> bool:
        """Whether its field says where its value stands."""
        return self.is_string

    @property
    def is_array(self) -> bool:
        """Whether it is bytes, fetched as an array of numbers."""
        return self.type.endswith("]")

    @property
    def size(self) -> int:
        """Bytes of its field."""
        bits, _, count = self.type[1:].rstrip("]").partition("[")
        return 4 if self.is_string else int(bits) // 8 * int(count or 1)


@dataclass(frozen=True, slots=True)
class FieldAt:
    """A field of an event: bytes from the start of the raw data, size, sign. Dynamic ones hold a descriptor: where the
    bytes are (low half) and how many (high half).
    """

    offset: int
    size: int
    signed: bool
    dynamic: bool


@dataclass(frozen=True, slots=True)
class EventFormat:
    """A parsed `format` file: the event's number and its fields by name, those that are fetched by f and number too."""

    id: int
    fields: dict[str, FieldAt]


@dataclass(frozen=True, slots=True)
class ProbePlace:
    """A place of an event: its site, its fetch arguments, as many and of the same types as the event's, and the number
    of its branch, which says what is to be done there. `points` are the attach points that it is of (`plan.points`).
    """

    site: Site
    fetches: tuple[Fetch, ...]
    branch: int = 0
    points: tuple[int, ...] = ()

    @property
    def file(self) -> FileSite:
        """The site of one that is to be defined."""
        return cast(FileSite, self.site)


@dataclass(frozen=True, slots=True)
class UprobeEvent:
    """A trace event with one or several places (Linux 5.4)."""

    name: str
    places: tuple[ProbePlace, ...]

    def fetches(self, place: ProbePlace) -> tuple[Fetch, ...]:
        """The fetch arguments of a place."""
        return place.fetches

    def definition(self, place: ProbePlace, group: str, path: str) -> str:
        """The line that defines one place. `path` is the file as it is to be written."""
        letter = "r" if place.file.is_return_probe else "p"
        counter = f"(0x{place.file.semaphore:x})" if place.file.semaphore is not None else ""
        args = "".join(f" f{number}={fetch.place}:{fetch.type}" for number, fetch in enumerate(self.fetches(place)))
        return f"{letter}:{group}/{self.name} {path}:0x{place.file.offset:x}{counter}{args}"

    @property
    def is_defined(self) -> bool:
        """Whether it is to be defined; the kernel has others."""
        return True

    @property
    def layout(self) -> EventFormat | None:
        """The layout of one that tracefs does not know; else None."""
        return None

    def where(self, group: str) -> tuple[str, str]:
        """The system and the name of the event, where those that are defined are of a `group`."""
        return group, self.name


class Undefinable(TracerError):
    """A place of an event cannot be defined, and `fetch` is the fetch argument that it is about, None for none."""

    def __init__(self, error: TracerError, event: UprobeEvent, place: ProbePlace, fetch: int | None = None) -> None:
        super().__init__(error.message, error.hint, error.detail)
        self.exit_code = error.exit_code
        self.event, self.place, self.fetch = event, place, fetch
