"""What a program does with its maps, which decides what the kernel can count for it."""

from __future__ import annotations

from tracer.backends.ftrace.filters import Filter
from tracer.dataclass import dataclass
from tracer.lang.typed import Aggregate, Clause, Clear, Delete, Exit, IntLit, MapAdd
from tracer.lang.walk import walk_clause
from tracer.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Uses:
    """What the program does with its maps besides adding to them in probes, and whether a probe says exit()."""

    exits: bool
    by_probes: frozenset[str]
    emptied: frozenset[str]

    @classmethod
    def of(cls, plan: Plan) -> Uses:
        """Of a whole plan."""
        nodes = [node for probe in plan.probes for node in walk_clause(probe.clause)]
        user = [node for clause in plan.user for node in walk_clause(clause)]
        return cls(
            any(isinstance(node, Exit) for node in nodes),
            frozenset(getattr(node, "map", "") for node in nodes if not isinstance(node, (Aggregate, MapAdd))),
            frozenset(node.map for node in user if isinstance(node, (Clear, Delete))),
        )


def counted(clause: Clause, filter: Filter | None, uses: Uses) -> tuple[str, ...]:
    """The maps of a clause that does nothing but `@map = count()` and `@map++`, on maps that no probe uses otherwise;
    () for any other.

    None where a probe clause says exit(): hits after it must not count, and a counter does not know when they came.
    """
    if uses.exits or (clause.predicate is not None and not (filter is not None and filter.whole)):
        return ()
    names = []
    for statement in clause.body:
        match statement:
            case Aggregate(map=name, key=(), function="count"):
                names.append(name)
            case MapAdd(map=name, key=(), value=IntLit(value=1)):
                names.append(name)
            case _:
                return ()
        if name in uses.by_probes:
            return ()
    return tuple(names)


def needed_by_intervals(plan: Plan, maps: frozenset[str]) -> bool:
    """Whether an interval looks at one of these maps, or can end the trace: hits until then count."""
    nodes = [node for clause in plan.user if clause.kind == "interval" for node in walk_clause(clause)]
    return any(isinstance(node, Exit) or getattr(node, "map", None) in maps for node in nodes)
