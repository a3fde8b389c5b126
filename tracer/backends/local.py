"""A session for programs that trace nothing: BEGIN, END and interval alone need neither root nor a kernel's help."""

from __future__ import annotations

import select
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from tracer.results.events import Event, Loss
from tracer.results.store import LocalMaps

if TYPE_CHECKING:
    from tracer.plan.model import Plan


class LocalSession:
    """Follows `backends.base.Session` with no probes."""

    def __init__(self, plan: Plan) -> None:
        self.maps = LocalMaps(plan.program)
        self.wake: tuple[int, ...] = ()
        self.details: tuple[str, ...] = ()

    def attach(self) -> int:
        """No sites."""
        return 0

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterable[Event]:
        """Waits; nothing ever happens."""
        select.select(self.wake, [], [], timeout_s)
        return ()

    def detach(self) -> None:
        """Nothing is attached."""

    def drain(self) -> Iterable[Event]:
        """Nothing is on its way."""
        return ()

    def loss(self) -> Loss:
        """What the maps dropped."""
        return self.maps.loss

    def hits(self) -> int:
        """None."""
        return 0

    def close(self) -> None:
        """Nothing to undo."""

    def __enter__(self) -> LocalSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
