"""The events and losses of a session: plain values that `render` turns into text or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tracer.dataclass import NamedTuple, dataclass, names
from tracer.lang.types import Value
from tracer.results.values import MapSnapshot


class PrintfEvent(NamedTuple):
    """`printf`: index into `Program.formats` and the values."""

    format: int
    args: tuple[Value, ...]


class PrintfBatch(NamedTuple):
    """Many `printf`s, one right after the other: the values of each, and their format, or one for each where they are
    not all of one. `rows` is read once.
    """

    format: int | Sequence[int]
    rows: Iterable[tuple[Value, ...]]


class ValueEvent(NamedTuple):
    """`print(expr)`: index into `Program.shapes` and the value."""

    shape: int
    value: Value


class ValueBatch(NamedTuple):
    """Many `print(expr)`s of one shape, one right after the other. `values` is read once."""

    shape: int
    values: Iterable[Value]


class MapEvent(NamedTuple):
    """`print(@x, top, div)`: of the map as `snapshot` has it, or where that is None as it is when this is handled."""

    map: str
    top: int
    div: int
    snapshot: MapSnapshot | None = None


class TimeEvent(NamedTuple):
    """`time(fmt)`: index into `Program.formats`, and the time in nanoseconds since 1970; None: that at which this is
    handled.
    """

    format: int
    moment: int | None = None


class ExitEvent(NamedTuple):
    """`exit(code)`: no hit counts after the one that said it."""

    code: int


Event = PrintfEvent | PrintfBatch | ValueEvent | ValueBatch | MapEvent | TimeEvent | ExitEvent


@dataclass(slots=True)
class Loss:
    """The losses that make an answer incomplete: exact counts per cause.

    `events` did not fit the buffer between kernel and tracer; `unreadable` hits ended early because an argument or
    string could not be read; `truncated` strings were cut; `keys` updates found their map full, which are those in
    `full`; `loops` hits ran out of rounds; `stacks` could not be walked; `crowded` hits ended early because a long
    string was cut by the kernel, or took the room of what was wanted; `dropped` events had not been shown when the
    trace was told to end at once; `returns` are those of calls nested deeper than the kernel follows
    (`backends.nested_returns`), -1 for a number that is not known; `busy` hits found no memory for their strings and
    records, as others had it all; `outrun` values of min() and max() were given up, as others went further again and
    again; `shut_out` hits came while another program of BPF ran on their CPU. `unseen` are ends of calls whose
    beginnings were not seen, `abandoned` calls without an end; `orphaned` are ends of spans without a start,
    `unfinished` starts of spans whose thread has ended. `divisions` by zero took 1 for their result, as in bpftrace:
    nothing is missing, but the answer may not be what was meant.
    """

    events: int = 0
    unreadable: int = 0
    truncated: int = 0
    keys: int = 0
    loops: int = 0
    stacks: int = 0
    crowded: int = 0
    dropped: int = 0
    returns: int = 0
    busy: int = 0
    outrun: int = 0
    unseen: int = 0
    abandoned: int = 0
    orphaned: int = 0
    unfinished: int = 0
    shut_out: int = 0
    divisions: int = 0
    full: frozenset[str] = frozenset()

    def __add__(self, other: Loss) -> Loss:
        counts = {name: getattr(self, name) + getattr(other, name) for name in names(self) if name != "full"}
        return Loss(**counts, full=self.full | other.full)

    def found_full(self, name: str, updates: int = 1) -> None:
        """Counts updates of a map that found it full."""
        self.keys += updates
        self.full |= {name}

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in names(self))


class OpenCall(NamedTuple):
    """A call that was under way at the end: its function, its thread, how long ago it began, and what it was called
    with, as `args.n = 3`. Or a span (`is_span`): `function` is its text, `thread` None of one by a key, and `arguments`
    has the key first.
    """

    function: str
    thread: int | None
    age_ns: int
    arguments: tuple[str, ...]
    is_span: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of the trace: exit() code, losses, and hits (-1 where the backend does not know them); whether a probe
    `told` anything, by printf() or exit(); the calls that were under way at the end.
    """

    code: int
    loss: Loss
    hits: int
    attached: int
    told: bool = False
    open_calls: Sequence[OpenCall] = ()
