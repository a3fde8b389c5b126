"""The uses of a program's maps, which decide what the kernel can count for it."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from tracer.backends.ftrace.filters import Filter
from tracer.dataclass import dataclass
from tracer.plan.model import Plan
from tracer.steps.model import Empty, Exit, MapAdd, MapDelete, Require, Step, Steps, Update
from tracer.steps.values import Const
from tracer.steps.walk import walk

if TYPE_CHECKING:
    from typing import TypeGuard


@dataclass(frozen=True, slots=True)
class Uses:
    """The uses of a program's maps besides adding to them in probes, and whether a probe says exit()."""

    exits: bool
    by_probes: frozenset[str]
    emptied: frozenset[str]

    @classmethod
    def of(cls, plan: Plan) -> Uses:
        """The uses of maps by all clauses of a plan."""
        probes = [step for probe in plan.probes for step in walk(plan.steps[probe.clause.id].body)]
        user = [step for clause in plan.user for step in walk(plan.steps[clause.id].body)]
        return cls(
            any(isinstance(step, Exit) for step in probes),
            frozenset(getattr(step, "map", "") for step in probes if not adds(step)),
            frozenset(
                step.map for step in user if isinstance(step, MapDelete) or (isinstance(step, Empty) and not step.zero)
            ),
        )


def adds(step: Step) -> TypeGuard[Update | MapAdd]:
    """Whether a step only adds to a map, without asking what was there."""
    return isinstance(step, Update) or (isinstance(step, MapAdd) and step.before is None)


def counted(steps: Steps, bare: Set[str], filter: Filter | None, uses: Uses) -> tuple[str, ...]:
    """The maps of a clause that does nothing but `@map = count()` and `@map++`, on maps that no probe uses otherwise;
    () for any other. `bare` are the maps that a hit adds 1 to.

    None where a probe clause says exit(): hits after it must not count, and a counter does not know when they came.
    """
    conditions = [number for number, step in enumerate(steps.body) if isinstance(step, Require)]
    if uses.exits or (conditions and not (filter is not None and filter.whole)):
        return ()
    body = steps.body[conditions[-1] + 1 if conditions else 0 :]
    names = []
    for step in body:
        match step:
            case Update(map=name, key=()) if name in bare:
                names.append(name)
            case MapAdd(map=name, key=(), value=Const(value=1), before=None):
                names.append(name)
            case _:
                return ()
        if name in uses.by_probes:
            return ()
    return tuple(names)


def needed_by_intervals(plan: Plan, maps: frozenset[str]) -> bool:
    """Whether an interval looks at one of these maps, or can end the trace: hits until then count."""
    intervals = (plan.steps[clause.id] for clause in plan.user if clause.period_ns)
    return any(
        isinstance(step, Exit) or getattr(step, "map", None) in maps for steps in intervals for step in walk(steps.body)
    )
