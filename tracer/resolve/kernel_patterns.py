"""Patterns that name no file and no one kind of probe, as bpftrace lists them: `*ware:*`, `*sched_switch*`, `*`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from tracer.errors import TracerError
from tracer.kinds.model import UNITS, ProbeKind
from tracer.kinds.registry import KINDS

if TYPE_CHECKING:
    from tracer.kinds.model import Machine
    from tracer.kinds.site import Target


def meant(
    patterns: Iterable[str | None], target: Target, machine: Callable[[], Machine]
) -> Iterator[str | None]:
    """The patterns of one kind or of files that these stand for."""
    for pattern in patterns:
        of_kinds = _of_kinds(pattern, target, machine)
        yield from (pattern,) if of_kinds is None else of_kinds


def _of_kinds(pattern: str | None, target: Target, machine: Callable[[], Machine]) -> list[str] | None:
    """The patterns of one kind each that a pattern stands for; None where it is one of a kind or of files."""
    everyone = not target.pids and target.program is None
    if pattern is None or pattern == "*":
        return [f"{kind.name}:*" for kind in _of_kernel()] if everyone else None
    word, colon, rest = pattern.partition(":")
    if "/" in word or not any(sign in word for sign in "*?[") or word == "*":
        return None
    if colon:
        kinds = [kind for name, kind in sorted(KINDS.items()) if fnmatchcase(name, word) and _has(kind, rest)]
        return [f"{kind.name}:{rest}" for kind in kinds] or None
    return None if not everyone or _is_of_files(pattern, target) else list(_named(pattern, machine())) or None


def _has(kind: ProbeKind, rest: str) -> bool:
    """Whether what follows the word of a kind can be listed for it."""
    if kind.units is not None:
        return any(fnmatchcase(unit, rest.partition(":")[0] or "*") for unit in kind.units())
    return kind.machine is not None or kind.target != ""


def _of_kernel() -> list[ProbeKind]:
    """The kinds of its events; of clocks there is no end."""
    return [
        kind for _, kind in sorted(KINDS.items())
        if kind.clause.at_hits and (kind.machine or (kind.units is not None and kind.units() is not UNITS))
    ]  # fmt: skip


def _is_of_files(pattern: str, target: Target) -> bool:
    from tracer.resolve.files.paths import find_files

    try:
        return bool(find_files(pattern, target))
    except TracerError:
        return False


def _named(pattern: str, machine: Machine) -> Iterator[str]:
    for kind in _of_kernel():
        names = (
            [f"{system}:{name}" for system, name in machine.events("*", "*")] if kind.machine is not None
            else kind.units() if kind.units is not None else ()
        )  # fmt: skip
        yield from (f"{kind.name}:{name}" for name in names if fnmatchcase(f"{kind.name}:{name}", pattern))
