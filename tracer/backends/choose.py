"""The two backends, in order of preference, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from tracer import choices
from tracer.dataclass import dataclass, replace
from tracer.errors import Diagnostic, ProgramError, TracerError
from tracer.lang import features
from tracer.plan.states import NEEDS_ROOT, State, Supported, Unsupported, elsewhere

if TYPE_CHECKING:
    from tracer.backends.base import Backend
    from tracer.plan.model import Plan
    from tracer.plan.states import Capabilities


def _backend_of(name: str) -> Backend:
    backend: Backend = getattr(import_module(f"tracer.backends.{name}"), f"{name.capitalize()}Backend")()
    return backend


BACKENDS: dict[str, Callable[[], Backend]] = {name: partial(_backend_of, name) for name in choices.BACKENDS}
"""In order of preference. Each is imported only when it is asked for."""


class Activation(Enum):
    """The handling of semaphores if the kernel does not count them."""

    REFUSED = "the program is refused"
    BY_HAND = "the tracer raises them itself (--usdt-file-activation)"
    FOLLOWED = "refused: with --follow those of a new process could not be raised in time"
    TOO_EARLY = "refused: with -c there is no process yet in which they could be raised"

    @classmethod
    def of(cls, command: bool, follow: bool, by_hand: bool = False) -> Activation:
        """The activation for a trace of a command, or that follows; `by_hand`: the user asks for it."""
        if command or follow:
            return cls.TOO_EARLY if command else cls.FOLLOWED
        return cls.BY_HAND if by_hand else cls.REFUSED


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend, and why not the ones before it: one line each, empty where it was the first or was forced.

    `by_hand`: the plan has semaphores, the kernel does not count them, and the tracer is to do it.
    """

    backend: Backend
    passed_over: tuple[str, ...]
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why not this backend."""

    backend: str
    text: str
    hint: str | None


def choose(
    plan: Plan, forced: str | None = None, need_usable: bool = True, activation: Activation = Activation.REFUSED
) -> Choice:
    """The first backend whose capabilities meet the plan on this host, or the forced one if it can. A backend that
    would be slow is taken if no other can.

    Raises `ProgramError` where a backend works here but the program asks too much of it, `TracerError` where none
    works.
    With `need_usable` False (`--dry-run`) a backend that lacks only privileges is taken all the same.
    """
    from tracer.plan.check import check

    names = [forced] if forced else list(BACKENDS)
    wanted = {need.feature for need in plan.needs}
    refusals: list[Diagnostic] = []
    reasons: list[_Reason] = []
    slow: Choice | None = None
    for name in names:
        backend = BACKENDS[name]()
        capabilities, by_hand = _activated(backend.capabilities(wanted), activation)
        unusable = capabilities.unusable
        if unusable is not None and need_usable:
            reasons.append(_Reason(name, unusable.reason, unusable.hint))
            continue
        refused = check(plan, capabilities)
        if not refused:
            by_hand = by_hand and any(need.feature is features.SEMAPHORE for need in plan.needs)
            choice = Choice(backend, tuple(map(_passed_over, [name] * len(reasons), reasons)), by_hand)
            states = map(capabilities.features.get, wanted)
            why = next((state.slow for state in states if isinstance(state, Supported) and state.slow), "")
            if forced or slow is not None or not why:
                return choice
            slow = choice
            reasons.append(_Reason(name, why, None))
            continue
        refused = [_with_remedy(diagnostic, plan, capabilities, activation) for diagnostic in refused]
        refusals = refusals or refused
        reasons.append(_Reason(name, refused[0].message, refused[0].hint))
    if slow is not None:
        return slow
    if refusals:
        # The first backend that works here is the one to explain; the others are named after it.
        raise ProgramError(plan.program.source, [*refusals, *_also(refusals, reasons)], exit_code=1)
    first = reasons[0]
    if all((reason.text, reason.hint) == (first.text, first.hint) for reason in reasons):
        raise TracerError(first.text, first.hint)
    raise TracerError("; ".join(f"{reason.backend}: {reason.text}" for reason in reasons), first.hint)


def _activated(capabilities: Capabilities, activation: Activation) -> tuple[Capabilities, bool]:
    """The capabilities of a backend with the tracer's help, and whether it needs that for semaphores."""
    lacks = capabilities.missing.get(features.SEMAPHORE)
    if lacks is None or activation is Activation.REFUSED:
        return capabilities, False
    state: State = Supported("raised by tracer itself")
    if activation is Activation.TOO_EARLY:
        state = Unsupported(lacks.reason, "start the program first, then trace it with -p PID --usdt-file-activation")
    elif activation is Activation.FOLLOWED:
        state = Unsupported(lacks.reason, "leave out --follow: -p PID --usdt-file-activation traces the process alone")
    states = {**capabilities.features, features.SEMAPHORE: state}
    return replace(capabilities, features=states), activation is Activation.BY_HAND


def _with_remedy(refusal: Diagnostic, plan: Plan, here: Capabilities, activation: Activation) -> Diagnostic:
    """The refusal. If its remedy is another backend, it also says why that one cannot be used."""
    other = next((name for name in BACKENDS if refusal.hint == elsewhere(name)), None)
    if other is None:
        return refusal
    capabilities, _ = _activated(BACKENDS[other]().capabilities(), activation)
    unusable = capabilities.unusable
    if unusable is not None and unusable != NEEDS_ROOT:
        return replace(refusal, hint=f"{other} could, but {unusable.reason} ({unusable.hint})")
    lacks = capabilities.missing.keys() - here.missing.keys()
    construct = next((need.construct for need in plan.needs if need.feature in lacks), None)
    return refusal if construct is None else replace(
        refusal, hint=f"{other} could, but not {construct}: leave one of the two out"
    )


def _passed_over(chosen: str, reason: _Reason) -> str:
    hint = f" ({reason.hint})" if reason.hint else ""
    return f"using {chosen}, not {reason.backend}: {reason.text}{hint}"


def _also(refusals: list[Diagnostic], reasons: list[_Reason]) -> list[Diagnostic]:
    """Why the other backends cannot be used, unless that has been said."""

    def is_said(reason: _Reason) -> bool:
        same = reason.text.replace(f" with {reason.backend}: ", " with ")
        return any(
            f"{reason.backend} could, but" in (refusal.hint or "")
            or same in [refusal.message.replace(f" with {name}: ", " with ") for name in BACKENDS]
            for refusal in refusals
        )

    return [
        Diagnostic(f"nor with {reason.backend}: {reason.text}", refusals[0].span, reason.hint)
        for reason in reasons
        if not is_said(reason)
    ]
