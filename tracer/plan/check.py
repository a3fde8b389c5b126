"""Compares a plan with a backend's capabilities and reports what is missing, under the user's own text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.errors import Diagnostic
from tracer.kinds.site import Unreadable
from tracer.plan.model import Plan, ProbePlan
from tracer.steps.model import Fetch, Steps
from tracer.steps.values import Argument
from tracer.steps.walk import walk

if TYPE_CHECKING:
    from tracer.plan.states import Capabilities


def check(plan: Plan, capabilities: Capabilities) -> list[Diagnostic]:
    """Every need of the plan that the backend cannot meet; empty where it can run the plan as it is."""
    return [
        Diagnostic(
            f"{need.construct} is not available with {capabilities.backend}: {missing.reason}", need.span, missing.hint
        )
        for need in plan.needs
        if (missing := capabilities.missing.get(need.feature)) is not None
    ]


def check_arguments(plan: Plan) -> list[Diagnostic]:
    """Arguments that no backend can read: an error where no site of the clause has a readable one, else a warning."""
    return [diagnostic for probe in plan.probes for diagnostic in _unreadable(probe, plan.steps[probe.clause.id])]


def _unreadable(probe: ProbePlan, steps: Steps) -> list[Diagnostic]:
    diagnostics: dict[int, Diagnostic] = {}
    total = sum(len(variant.sites) for variant in probe.variants)
    for step in walk(steps.body):
        if not (isinstance(step, Fetch) and isinstance(step.source, Argument)) or step.source.index in diagnostics:
            continue
        index = step.source.index
        bad = [
            (variant, operand)
            for variant in probe.variants
            if isinstance(operand := variant.args[index].operand, Unreadable)
        ]
        if not bad:
            continue
        variant, operand = bad[0]
        text = variant.args[index].text
        where = f"arg{index} cannot be read at {variant.sites[0].shown}"
        reason = f"{where}: {operand.reason}" + (f" ({text})" if text else "")
        count = sum(len(variant.sites) for variant, _ in bad)
        if count == total:
            others = any(not isinstance(spec.operand, Unreadable) for spec in variant.sites[0].args)
            hint = "leave it out; the other arguments can be read" if others else None
            diagnostics[index] = Diagnostic(reason, step.span, hint)
        else:
            diagnostics[index] = Diagnostic(
                f"{reason}; this is so at {count} of {total} sites",
                step.span,
                "hits there end at this place and are counted as unreadable",
                severity="warning",
            )
    return list(diagnostics.values())
