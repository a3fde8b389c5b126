"""A trace that a program drives: it runs in a thread of its own, and gives typed values."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tracer.api.collector import Collector
from tracer.api.consumer import Consumer, Writer
from tracer.errors import Heard, UsageError
from tracer.render.notices import Missing, Waits
from tracer.tracing.locked import Locked
from tracer.tracing.loop import Controls
from tracer.tracing.trace import Trace as Assembled

if TYPE_CHECKING:
    from types import TracebackType

    from tracer.api.events import Event
    from tracer.render.notices import Notice
    from tracer.results.events import Loss
    from tracer.tracing import Prepared

_PATIENCE_S = 60.0
"""How long `maps` waits for the trace to have read them."""


class Trace:
    """A trace under way: a context manager, and an iterator of what its program says. It is attached once it is
    entered, and undone once it is left; one that is dropped undoes itself. It can be used from several threads.
    """

    def __init__(self, prepared: Prepared, warnings: Sequence[Notice]) -> None:
        """Made by `tracer.trace`."""
        self._controls = controls = Controls()
        self._collector = Collector(controls)
        self._collector.warnings += warnings
        self._thread = threading.Thread(
            target=_run, args=(prepared, controls, self._collector), name="tracer", daemon=True
        )
        self._undo = weakref.finalize(self, _drop, controls, prepared, self._thread)

    def __enter__(self) -> Trace:
        """Returns once the probes are in place, or the trace is over. Raises `TracerError`."""
        self._thread.start()
        collector = self._collector
        with collector.changed:
            try:
                while not (collector.is_attached or collector.is_over):
                    collector.changed.wait()
            except BaseException:
                self._controls.end()
                raise
        if collector.is_over:
            self._raise()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends it, and waits until all is undone. What has not been read stays to be read. Raises what went wrong."""
        self.stop()
        self._thread.join()
        if error is None:
            self._raise()

    def add(self, consumer: Consumer | Writer, only: bool = False) -> None:
        """Gives all that comes to one more; before the trace is entered. `only`: the iterator gets no events, and none
        waits for it. A `Writer` writes what the command line would print.
        """
        if self._thread.ident is not None:
            raise UsageError("a trace that runs takes no consumer", "add it before the trace is entered")
        collector = self._collector
        if isinstance(consumer, Writer):
            collector.writers.append(consumer)
        else:
            collector.consumers.append(consumer)
        collector.keeps = collector.keeps and not only

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        """The next thing that the program says; waits for it. Ends with the trace. Raises `TracerError`."""
        collector = self._collector
        with collector.changed:
            while not collector.events and not collector.is_over:
                collector.changed.wait()
            if collector.events:
                event = collector.events.popleft()
                collector.changed.notify_all()
                return event
        self._raise()
        raise StopIteration

    @property
    def maps(self) -> Mapping[str, Any]:
        """The maps by their names (`@`, `@bytes`), as they are now: a map with keys is a dictionary in printing order,
        one without is its value. See `tracer.api.values` for what stands for what.
        """
        collector = self._collector
        with collector.changed:
            before = collector.looks
            if not self._controls.stop and not collector.is_over:
                self._controls.print_maps = True
                self._controls.ring()
            collector.changed.wait_for(lambda: collector.looks > before or collector.is_over, _PATIENCE_S)
            return collector.snapshots

    @property
    def loss(self) -> Loss:
        """The losses that make the answer incomplete, by cause; complete once the trace is over."""
        return self._collector.loss

    @property
    def warnings(self) -> Sequence[Notice]:
        """The warnings so far: what the answer lacks or is worth knowing of it; `str()` of each is a sentence."""
        return tuple(self._collector.warnings)

    @property
    def notices(self) -> Sequence[Notice]:
        """The notices of the trace so far: what it has said beside its results."""
        return tuple(self._collector.notices)

    @property
    def probes(self) -> int:
        """The number of attached probes."""
        return self._collector.probes

    @property
    def backend(self) -> str | None:
        """The backend that runs it; None for a program without probes."""
        return self._collector.backend

    @property
    def exit_code(self) -> int:
        """The number that the program gave to exit(), else 0."""
        return self._collector.code

    @property
    def hits(self) -> int:
        """The hits of all probes, once the trace is over; -1 where they are not known."""
        return self._collector.hits

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the trace is over: its command or process has ended, exit() was called, its duration has passed,
        or it was stopped. False where it is not within `timeout` seconds. What the program says meanwhile can be read
        afterwards, or by another thread. Raises `TracerError`.
        """
        collector = self._collector
        with collector.changed:
            over = collector.changed.wait_for(lambda: collector.is_over, timeout)
        if over:
            self._raise()
        return over

    def stop(self) -> None:
        """Asks for the end, from any thread: no hit counts that comes later. `wait` waits for it."""
        self._controls.end()

    def _raise(self) -> None:
        error, self._collector.error = self._collector.error, None
        if error is not None:
            raise error


def _run(prepared: Prepared, controls: Controls, collector: Collector) -> None:
    """The thread. It knows nothing of the object that was handed out, so that this can be dropped."""
    error: BaseException | None = None
    try:
        locked = Locked(lambda line: collector.notice(Waits(line, False)))
        heard = Heard(lambda line: collector.notice(Missing(line)), controls.asked)
        with prepared, controls, locked, heard:
            program = prepared.compiled.plan.program
            Assembled(
                prepared, controls, collector, collector,
                lambda names, effects: collector.results(program, names, effects),
            ).run()  # fmt: skip
    except BaseException as fault:
        error = fault
    collector.over(error)


def _drop(controls: Controls, prepared: Prepared, thread: threading.Thread) -> None:
    controls.hurry = True
    controls.end()
    if thread.ident is None:  # it was never entered
        prepared.close()
