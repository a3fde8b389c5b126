"""Compiles the steps of a clause to one Python function.

The function takes a hit (see `leaves`), tests the predicate and runs the body. It is generated as Python source because
a million hits a second leave no time to walk a tree; `source_of` shows that source. Nothing of the user's text is in it
(see `source`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Protocol, cast

from tracer.kinds.registry import kind_of
from tracer.kinds.site import ArgSpec, Const, Reg
from tracer.lang.typed import Clause, Program
from tracer.steps.model import Steps
from tracer.steps.python.runtime import Compiled, Hit, Runtime
from tracer.steps.values import Argument, BuiltIn, KernelStack, Source, UserStack

if TYPE_CHECKING:
    from tracer.steps.python.steps import PythonSteps

_ALWAYS_KNOWN = frozenset({"pid", "tid", "uid", "gid", "cpu", "nsecs", "monotonic", "tai", "cpid", "moment"})
_BUILTINS = {"KeyError": KeyError, "len": len, "min": min, "range": range}


class Placed(Protocol):
    """The common properties of a clause's sites (`plan.model.Variant`): where they keep arguments, by index, and what
    they tell, by name.
    """

    @property
    def args(self) -> dict[int, ArgSpec]:
        """See there."""

    @property
    def told(self) -> dict[str, bytes | int]:
        """See there."""


def compile_clause(
    program: Program,
    clause: Clause,
    steps: Steps,
    variant: Placed | None,
    runtime: Runtime,
    printer: type[PythonSteps] | None = None,
) -> Compiled:
    """The function of a clause.

    `variant` gives `probe` and its like, and says which arguments can always be read; None for BEGIN, END and interval.
    `printer` may know more than a hit does: tests read memory at computed addresses.
    """
    printed = _printer(program, clause, steps, variant, runtime, printer)
    source = printed.source(clause.kind.repeats)
    namespace: dict[str, object] = {}
    # The whole text is generated: digits and made-up names.
    exec(_code(source, f"<clause {clause.id}>"), {"__builtins__": _BUILTINS}, namespace)
    make = cast("Callable[..., Compiled]", namespace["make"])
    return make(*printed.writer.names.values())


def made_later(make: Callable[[], Compiled]) -> Compiled:
    """A function that is compiled at its first hit."""
    compiled: Compiled | None = None

    def first(hit: Hit) -> None:
        nonlocal compiled
        if compiled is None:
            compiled = make()
        compiled(hit)

    return first


def source_of(program: Program, clause: Clause, steps: Steps, variant: Placed | None, runtime: Runtime) -> str:
    """The Python source of a clause, for people and tests."""
    return _printer(program, clause, steps, variant, runtime, None).source(clause.kind.repeats)


@lru_cache(maxsize=64)
def _code(source: str, name: str) -> CodeType:
    """Compiled once for the variants that differ in bound values alone: of a wildcard there are thousands."""
    return compile(source, name, "exec")


def _printer(
    program: Program,
    clause: Clause,
    steps: Steps,
    variant: Placed | None,
    runtime: Runtime,
    printer: type[PythonSteps] | None,
) -> PythonSteps:
    from tracer.steps.python.steps import PythonSteps  # not loaded for `@ = count()` in a probe

    def told(name: str) -> bytes | int:
        return b"" if variant is None else variant.told.get(name, b"")

    def always(source: Source) -> bool:
        if isinstance(source, KernelStack):
            return True
        if isinstance(source, UserStack):  # a thread of the kernel has none, and is hit all the same
            return any("stack" in kind_of(site).reads for site in clause.sites[:1])
        if isinstance(source, BuiltIn):
            return source.name in _ALWAYS_KNOWN and not clause.kind.at_hits
        if isinstance(source, Argument) and variant is not None and source.index in variant.args:
            return isinstance(variant.args[source.index].operand, (Reg, Const))
        return False

    return (printer or PythonSteps)(program, steps, runtime, told, always, clause.kind.at_hits)
