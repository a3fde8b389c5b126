"""The two backends, in order of preference, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from tracer.backends.capabilities import Feature, Unsupported
from tracer.errors import Diagnostic, ProgramError, TracerError

if TYPE_CHECKING:
    from tracer.backends.base import Backend
    from tracer.backends.capabilities import Capabilities
    from tracer.plan.model import Plan


def _bcc() -> Backend:
    from tracer.backends.bcc import BccBackend

    return BccBackend()


def _ftrace() -> Backend:
    from tracer.backends.ftrace import FtraceBackend

    return FtraceBackend()


BACKENDS: dict[str, Callable[[], Backend]] = {"bcc": _bcc, "ftrace": _ftrace}
"""In order of preference. Each is imported only when it is asked for."""


class Activation(Enum):
    """What is to be done with semaphores where the kernel does not count them."""

    REFUSED = "the program is refused"
    BY_HAND = "the tracer raises them itself (--usdt-file-activation)"
    TOO_EARLY = "refused: with -c there is no process yet in which they could be raised"


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend, and why not the ones before it: one line each, empty where it was the first or was forced.

    `by_hand`: the plan has semaphores, the kernel does not count them, and the tracer is to do it.
    """

    backend: Backend
    passed_over: tuple[str, ...]
    by_hand: bool = False


def choose(
    plan: Plan, forced: str | None = None, need_usable: bool = True, activation: Activation = Activation.REFUSED
) -> Choice:
    """The first backend whose capabilities meet the plan on this host, or the forced one if it can.

    Raises `ProgramError` where a backend works here but the program asks too much of it, `TracerError` where none
    works.
    With `need_usable` False (`--dry-run`) a backend that lacks only privileges is taken all the same.
    """
    from tracer.plan.check import check

    names = [forced] if forced else list(BACKENDS)
    refusals: list[Diagnostic] = []
    reasons: list[tuple[str, str, str | None]] = []
    for name in names:
        backend = BACKENDS[name]()
        capabilities, by_hand = _activated(backend.capabilities(), activation)
        unusable = capabilities.unusable
        if unusable is not None and need_usable:
            reasons.append((name, unusable.reason, unusable.hint))
            continue
        found = check(plan, capabilities)
        if not found:
            by_hand = by_hand and any(need.feature is Feature.SEMAPHORE for need in plan.needs)
            return Choice(backend, tuple(_passed_over(name, *reason) for reason in reasons), by_hand)
        refusals = refusals or found
        reasons.append((name, found[0].message, found[0].hint))
    if refusals:
        # The first backend that works here is the one to explain; the others are named after it.
        raise ProgramError(plan.program.source, [*refusals, *_also(refusals, reasons)], exit_code=1)
    name, reason, hint = reasons[0]
    if all((other, remedy) == (reason, hint) for _, other, remedy in reasons):
        raise TracerError(reason, hint)
    raise TracerError("; ".join(f"{name}: {why}" for name, why, _ in reasons), hint)


def _activated(capabilities: Capabilities, activation: Activation) -> tuple[Capabilities, bool]:
    """What a backend can do with the tracer's help, and whether it needs that for semaphores."""
    lacks = capabilities.missing.get(Feature.SEMAPHORE)
    if lacks is None or activation is Activation.REFUSED:
        return capabilities, False
    missing = dict(capabilities.missing)
    if activation is Activation.BY_HAND:
        del missing[Feature.SEMAPHORE]
    else:
        hint = "start the program first, then trace it with -p PID --usdt-file-activation"
        missing[Feature.SEMAPHORE] = Unsupported(lacks.reason, hint)
    return replace(capabilities, missing=missing), activation is Activation.BY_HAND


def _passed_over(chosen: str, name: str, reason: str, hint: str | None) -> str:
    return f"using {chosen}, not {name}: {reason}" + (f" ({hint})" if hint else "")


def _also(refusals: list[Diagnostic], reasons: list[tuple[str, str, str | None]]) -> list[Diagnostic]:
    told = {diagnostic.message for diagnostic in refusals}
    return [
        Diagnostic(f"nor with {name}: {reason}", refusals[0].span, hint)
        for name, reason, hint in reasons
        if reason not in told
    ]
