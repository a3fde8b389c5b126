"""The runtime of a compiled clause, and the types of hit tuples."""

from __future__ import annotations

from collections.abc import Callable

from tracer.dataclass import dataclass, field
from tracer.host.clock import clock_ns
from tracer.lang.types import Symbol
from tracer.results.events import Event, Loss
from tracer.results.values import MapStore

Hit = tuple[object, ...]
"""One value for each of `leaves(steps)`; None where it could not be read, `NO_ROOM` where it was not kept."""


class NoRoom:
    """A value for which the kernel had no room."""


NO_ROOM = NoRoom()

Reach = tuple[bytes, "bytes | NoRoom | None"]
"""The known part of a string whose size comes with the hit: its first bytes, without a NUL, and what follows them: b""
where it ends there, None where memory cannot be read, `NO_ROOM` where the rest was not kept.
"""


def measured(reach: Reach, length: int, size: int) -> bytes | NoRoom | None:
    """The string that `str(address, length)` gives where max_strlen is `size`; None or `NO_ROOM` where a byte of it is
    missing. Beyond `size` it is one byte more than can be shown, for a cut to be noticed.
    """
    bytes_read, behind = reach
    wanted = max(length - 1, 0) if length <= size else size
    return bytes_read[:wanted] if len(bytes_read) >= wanted or behind == b"" else behind


def _anywhen(pid: int, address: int, moment: int) -> Symbol:
    """The symbol of an address, where nobody keeps what processes map."""
    return Symbol(pid, address)


def _any_thread(thread: int) -> bool:
    return True


Compiled = Callable[[Hit], None]
"""A clause as a function: predicate, then body."""

@dataclass(slots=True)
class Runtime:
    """The world of compiled clauses; one for all clauses of a session.

    `emit` takes events in the order they happen. `exiting` is set by `exit()`; clauses for probes and intervals do
    nothing from then on. `elapsed` counts from `start_ns` (see `clock_ns`). `place` makes a symbol of a process's
    address, as it was at a moment; `traced` says whether a thread is one of those that are traced.
    """

    maps: MapStore
    emit: Callable[[Event], None]
    loss: Loss = field(default_factory=Loss)
    exiting: bool = False
    start_ns: int = field(default_factory=clock_ns)
    place: Callable[[int, int, int], Symbol] = _anywhen
    traced: Callable[[int], bool] = _any_thread
