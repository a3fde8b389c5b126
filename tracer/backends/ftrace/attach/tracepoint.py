"""Events of the kernel on the ftrace backend: opened as they are, nothing is defined."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.ftrace.attach.model import NotExpressible
from tracer.dataclass import dataclass
from tracer.kernel.uprobe_events.events import Fetch
from tracer.kinds.site import Operand, Site

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts
    from tracer.kinds.kernel_event import Field, KernelEvent


@dataclass(frozen=True, slots=True)
class _Field(Fetch):
    """A field that the event has: its place is its name. See `Fetch.beside`."""

    offset: int = 0
    located: bool = False
    beside: bool = False

    def name(self, number: int) -> str:
        return self.place

    @property
    def is_dynamic(self) -> bool:
        return self.located


class _Tracepoints:
    """See `attach.model.Attacher`."""

    triggers = False
    late = True
    counts = True
    unread = "an event holds pointers, and not what they lead to"
    thread_name: Fetch | None = None

    def group(self, site: Site) -> Hashable:
        return site.spot

    def kernel_event(self, site: Site) -> tuple[str, str] | None:
        event = cast("KernelEvent", site)
        return event.system, event.name

    def sampled(self, site: Site) -> None:
        return None

    def fields(self, site: Site) -> Sequence[Fetch]:
        fields = [cast("Field", spec.operand) for spec in site.args]
        return [_fetch(field) for field in fields if not field.beside]

    def returned(self, site: Site, register: str) -> str:
        return ""

    def number(self, operand: Operand, index: int, type: str) -> Fetch:
        return _fetch(cast("Field", operand))

    def pointer(self, operand: Operand, index: int) -> str:
        raise NotExpressible(self.unread)

    def bytes(self, operand: Operand) -> tuple[Fetch, int | None]:
        field = cast("Field", operand)
        return _fetch(field), (field.offset + 4 if field.from_itself else 0) if field.located else None

    def cost(self, sites: Sequence[Site], costs: HitCosts, sample_type: int) -> Cost | None:
        from tracer.kernel.trials.hit_cost import Cost  # where the overhead guard asks

        return Cost(1000.0 if sample_type else 100.0, "it is an event of the kernel")


def _fetch(field: Field) -> Fetch:
    if field.beside:
        return _Field(field.name, "u64", beside=True)
    if field.located:
        return _Field(field.name, "u32", field.offset, True)
    if field.held:
        return _Field(field.name, f"u8[{field.size}]", field.offset)
    return _Field(field.name, f"{'s' if field.signed else 'u'}{8 * field.size}", field.offset)


TRACEPOINTS = _Tracepoints()
