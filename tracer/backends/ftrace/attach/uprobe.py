"""Places in files on the ftrace backend: USDT probes, functions, lines and returns of functions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, cast

from tracer.backends.ftrace.attach.model import NotExpressible
from tracer.kernel.uprobe_events.events import Fetch
from tracer.kinds.site import FileSite, Global, GlobalPointer, Mem, Operand, Reg, Site

if TYPE_CHECKING:
    from tracer.kernel.trials.hit_cost import Cost, HitCosts


class _InFiles:
    """See `attach.model.Attacher`."""

    triggers = True
    late = False
    counts = True
    unread = ""
    thread_name: Fetch | None = Fetch("$comm", "string")

    def group(self, site: Site) -> Hashable:
        return cast(FileSite, site).is_return_probe

    def kernel_event(self, site: Site) -> tuple[str, str] | None:
        return None

    def sampled(self, site: Site) -> None:
        return None

    def fields(self, site: Site) -> Sequence[Fetch]:
        return ()

    def returned(self, site: Site, register: str) -> str:
        return "$retval" if cast(FileSite, site).is_return_probe else register

    def number(self, operand: Operand, index: int, type: str) -> Fetch:
        return Fetch(self.pointer(operand, index), type)

    def pointer(self, operand: Operand, index: int) -> str:
        match operand:
            case Reg(name):
                return f"%{name}"
            case Mem(base=str(base), disp=disp, index=None):
                return f"{disp:+d}(%{base})"
            case Global(fetch_offset=offset, index=None) | GlobalPointer(slot=Global(fetch_offset=offset, index=None)):
                return f"@+{offset}"
            case _:
                raise NotExpressible(f"arg{index} is at a computed address")

    def bytes(self, operand: Operand) -> tuple[Fetch, int | None]:
        raise NotExpressible("a hit of a place in a file holds nothing")

    def cost(self, sites: Sequence[Site], costs: HitCosts, sample_type: int) -> Cost | None:
        return costs.of(cast("Sequence[FileSite]", sites), sample_type)


IN_FILES = _InFiles()
