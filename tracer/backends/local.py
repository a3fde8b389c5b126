"""A session for programs that trace nothing: BEGIN, END and interval alone need neither root nor a kernel's help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from tracer.backends import ALONE, Surroundings
from tracer.host.polling import readable
from tracer.results.events import Event, Loss
from tracer.results.store import LocalMaps

if TYPE_CHECKING:
    from tracer.backends.base import CompiledProgram
    from tracer.kernel.trials.hit_cost import Cost
    from tracer.kinds.site import FileSite
    from tracer.plan.model import Plan


class LocalSession:
    """Follows `backends.base.Session` with no probes."""

    def __init__(self, plan: Plan, around: Surroundings = ALONE) -> None:
        self.maps = LocalMaps(plan.program)
        self._around = around
        self.details: tuple[str, ...] = ()
        self.missed: tuple[str, ...] = ()
        self.gone: Collection[int] = ()

    @property
    def not_undone(self) -> None:
        """Nothing."""

    @property
    def left_out(self) -> Sequence[FileSite]:
        return ()

    def begin(self, maps: LocalMaps) -> None:
        self.maps.receive(maps)

    def attach(self, stop: Callable[[], bool] = lambda: False) -> int:
        return 0

    def compile_more(self, plan: Plan) -> CompiledProgram:
        raise AssertionError("nothing is traced")

    def attach_more(self, program: object) -> int:
        raise AssertionError("nothing is traced")

    def events(self, timeout_s: float, until_ns: int | None = None) -> Iterable[Event]:
        """Waits; nothing ever happens."""
        readable(self._around.wake(), timeout_s)
        return ()

    def detach(self) -> None:
        """Nothing is attached."""

    def drain(self, hurried: Callable[[], bool] = lambda: False) -> Iterable[Event]:
        return ()

    def collect(self) -> None:
        """Nothing ever comes."""

    def drop(self) -> None:
        """Nothing is on its way."""

    def loss(self) -> Loss:
        return self.maps.loss

    def hits(self) -> int:
        return 0

    def point_hits(self) -> tuple[int, ...]:
        return ()

    def unhit_sites(self) -> dict[int, tuple[FileSite, ...]]:
        return {}

    def hit_cost(self, point: int) -> Cost | None:
        return None

    def detach_point(self, point: int) -> None:
        """There is none."""

    def close(self) -> None:
        """Nothing to undo."""

    def __enter__(self) -> LocalSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
