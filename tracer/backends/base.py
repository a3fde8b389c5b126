"""The interface of a backend.

`open` makes a session whose maps exist and whose probes are not attached yet; `Session.attach` attaches them. Between
the two `Session.begin` hands over what BEGIN has put into the maps, so that it is there at the first hit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tracer.backends import Surroundings
from tracer.kinds.site import FileSite, Target
from tracer.plan.model import Plan
from tracer.results.events import Event, Loss
from tracer.results.values import MapStore

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost
    from tracer.lang.features import Feature
    from tracer.plan.states import Capabilities
    from tracer.results.store import LocalMaps


class CompiledProgram(Protocol):
    """A compiled plan."""

    @property
    def plan(self) -> Plan:
        """The plan that it was made from."""

    def text(self) -> str:
        """The text that will be given to the kernel, for people: the C program, or the writes to tracefs."""

    def bytecode(self) -> str:
        """The instructions that the kernel will run, for people. Raises `TracerError` where there are none."""


class Session(Protocol):
    """A running trace: a context manager whose `close` is idempotent and removes everything."""

    @property
    def maps(self) -> MapStore:
        """The content of the program's maps."""

    details: tuple[str, ...]
    """Lines for `-v`. `attach` can add some."""

    @property
    def not_undone(self) -> str | None:
        """A message for after the close, if undoing did not go as it should; else None."""

    @property
    def missed(self) -> Sequence[str]:
        """Messages for the end about hits that may have been missed, and that no loss counts."""

    @property
    def gone(self) -> Collection[int]:
        """The attach points that were detached, by `detach_point` or by the session itself."""

    @property
    def left_out(self) -> Sequence[FileSite]:
        """Sites of a pattern that the kernel does not probe, known after `attach`; see `kernel.trials.instructions`."""

    def begin(self, maps: LocalMaps) -> None:
        """Takes, before `attach`, what a BEGIN has put into the maps, which nobody writes any more."""

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Attaches all probes or none, but for those `left_out`; returns how many sites. `stop` is asked now and then:
        once it says so nothing stays attached, and the answer is 0. Raises `TracerError`, `ProgramError` with spans.
        """

    def compile_more(self, plan: Plan) -> CompiledProgram:
        """The program for more sites of the same clauses, while the trace runs; any thread may ask for it. Raises
        `TracerError` where they do not go with those that are there.
        """

    def attach_more(self, program: Any) -> int:
        """Attaches it beside what is there, or leaves nothing of it; returns how many sites. Raises `TracerError`."""

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterable[Event]:
        """The events since the last call, oldest first; waits up to `timeout_s` for the first one. The consumer handles
        each event before it takes the next, since on ftrace taking the next one goes on with the hits.

        Hits later than `until_ns` (CLOCK_MONOTONIC, nanoseconds) are left for the next call by a session that
        runs the clauses on them; where the kernel aggregates, at the hit, they are in the maps already.

        Iteration ends when there are no more events, when the time is up, after an `ExitEvent`, or at an interrupted
        wait (EINTR).
        """

    def detach(self) -> None:
        """No hit after it counts. Probes that the kernel takes long to remove may still be there until `close`."""

    def drain(self, hurried: Callable[[], bool] = lambda: False) -> Iterable[Event]:
        """Returns, after `detach`, the events that are still in the buffers, until `hurried()` is true."""

    def collect(self) -> None:
        """Empties the kernel's buffers into memory of bounded size, while a consumer is held up handling an event."""

    def drop(self) -> None:
        """Drops, after `detach`, the events that are still in the buffers, and counts them as lost."""

    def loss(self) -> Loss:
        """Losses so far."""

    def hits(self) -> int:
        """The hits of all probes so far (for explaining silence); -1 where that is not known."""

    def point_hits(self) -> Sequence[int] | None:
        """Hits of each attach point so far (`plan.points`), including those that the predicate drops, which cost as
        much. None while they are not known.
        """

    def unhit_sites(self) -> Mapping[int, Sequence[FileSite]]:
        """The sites that were never hit, of attach points with several sites but not too many; nothing where that is
        not known.
        """

    def hit_cost(self, point: int) -> Cost | None:
        """The cost of an attach point's hit to the traced program; None while it is being measured: ask again soon."""

    def detach_point(self, point: int) -> None:
        """Ends one attach point: no hit after it counts there, and others go on."""

    def close(self) -> None:
        """Undoes everything."""

    def __enter__(self) -> Session: ...

    def __exit__(self, *error: object) -> None: ...


class Backend(Protocol):
    """BCC or ftrace."""

    name: str

    def capabilities(self, wanted: Collection[Feature] | None = None) -> Capabilities:
        """The capabilities of this host; every "no" with its reason and remedy. Works without root, by trying, quickly.

        If only some features are `wanted`, others may be reported as supported without a trial, and the facts left out.
        """

    def compile(self, plan: Plan) -> CompiledProgram:
        """No root, no kernel."""

    def open(self, program: CompiledProgram, target: Target, around: Surroundings) -> Session:
        """Loads the program and makes its maps; attaches nothing yet."""
