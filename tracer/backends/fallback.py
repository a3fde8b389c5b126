"""A session that goes on to the next backend where one cannot run the program, as only the kernel can tell."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tracer.dataclass import replace
from tracer.errors import ProgramError, TracerError

if TYPE_CHECKING:
    from tracer.backends.base import Session
    from tracer.results.store import LocalMaps


class _Compiled(Protocol):
    @property
    def backend(self) -> str | None:
        """The name of the backend."""


C = TypeVar("C", bound=_Compiled)


class FallbackSession(Generic[C]):
    """A `backends.base.Session` around the one that runs, which does everything that is not defined here. `running` is
    what that one was made from.

    It can be another one after `attach`: what BEGIN has put into maps is handed on.
    """

    running: C

    def __init__(
        self, compiled: C, open: Callable[[C], Session], instead: Callable[[C, TracerError], C | None]
    ) -> None:
        """Opens what is compiled; `instead` compiles it for the next backend, if there is one that may be taken."""
        self.running, self._open, self._instead = compiled, open, instead
        self._begun: LocalMaps | None = None
        self._not_undone: str | None = None
        try:
            self._session = open(compiled)
        except (TracerError, OSError) as error:
            self._session = self._next(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def not_undone(self) -> str | None:
        """See `Session`; what the session that could not attach has left counts too."""
        mine, its = self._not_undone, self._session.not_undone
        return str(mine or its) if mine or its else None

    def begin(self, maps: LocalMaps) -> None:
        """See `Session`."""
        self._begun = maps
        self._session.begin(maps)

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        """Attaches, by the next backend where this one cannot. Raises what the first says where none can."""
        try:
            return int(self._session.attach(stop))
        except (TracerError, OSError) as error:
            self._session.close()
            first = error
        self._not_undone = self._session.not_undone
        session = self._session = self._next(first)
        if self._begun is not None:
            session.begin(self._begun)
        try:
            return session.attach(stop)
        except (TracerError, OSError) as second:
            raise _both(first, second, self.running) from first

    def __enter__(self) -> FallbackSession[C]:
        return self

    def __exit__(self, *error: object) -> None:
        self._session.close()

    def _next(self, error: TracerError | OSError) -> Session:
        complaint = error if isinstance(error, TracerError) else _as_error(error)
        other = self._instead(self.running, complaint)
        if other is None:
            raise error
        try:
            session: Session = self._open(other)
        except (TracerError, OSError) as second:
            raise _both(error, second, other) from error
        self.running = other
        return session


def _as_error(error: OSError) -> TracerError:
    return TracerError(f"the kernel refuses it: {error.strerror or os.strerror(error.errno or 0)}")


def _both(first: TracerError | OSError, second: TracerError | OSError, other: _Compiled) -> TracerError | OSError:
    """The error of the first backend, with that of the other if it is something else."""
    if isinstance(first, OSError):
        return second
    if isinstance(second, OSError):
        return first
    if second.message == first.message or (second.hint and second.hint == first.hint):
        return first
    also = f"nor with {other.backend}: {second.message}"
    if isinstance(first, ProgramError):
        diagnostics = [*first.diagnostics, replace(first.diagnostics[0], message=also, hint=second.hint)]
        return ProgramError(first.source, diagnostics, first.detail, first.exit_code)
    error = TracerError(f"{first.message}; {also}", first.hint or second.hint, first.detail)
    error.exit_code = first.exit_code
    return error
