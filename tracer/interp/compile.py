"""Compiles a typed clause to one Python function.

The function takes a hit (see `interp.fetch`), tests the predicate and runs the body. It is generated as Python source
because a million hits a second leave no time to walk a tree; `source_of` shows that source. Nothing of the user's text
is in it (see `interp.source`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, cast

from tracer.interp.expressions import Expressions
from tracer.interp.mapcode import MapCode
from tracer.interp.runtime import Compiled, Hit, Runtime
from tracer.interp.source import Writer
from tracer.interp.statements import Statements
from tracer.lang.typed import Clause, Program
from tracer.results.store import empty_value

if TYPE_CHECKING:
    from tracer.plan.model import Variant


def compile_clause(program: Program, clause: Clause, variant: Variant | None, runtime: Runtime) -> Compiled:
    """The function of a clause.

    `variant` gives `probe` and `func` and says which arguments can always be read; None for BEGIN, END and interval.
    """
    source, names = _generate(program, clause, variant, runtime)
    namespace: dict[str, object] = {}
    # The text is ours from the first to the last character: digits, and names that we made up.
    exec(_code(source, f"<clause {clause.id}>"), {"__builtins__": _BUILTINS}, namespace)
    make = cast("Callable[..., Compiled]", namespace["make"])
    return make(*names.values())


def made_later(make: Callable[[], Compiled]) -> Compiled:
    """A function that is made at its first hit."""
    made: Compiled | None = None

    def first(hit: Hit) -> None:
        nonlocal made
        if made is None:
            made = make()
        made(hit)

    return first


def source_of(program: Program, clause: Clause, variant: Variant | None, runtime: Runtime) -> str:
    """The Python source of a clause, for people and tests."""
    return _generate(program, clause, variant, runtime)[0]


@lru_cache(maxsize=64)
def _code(source: str, name: str) -> CodeType:
    """Compiled once for the variants that differ in bound values alone: of a wildcard there are thousands."""
    return compile(source, name, "exec")


_BUILTINS = {"KeyError": KeyError, "len": len, "min": min, "range": range}


def _generate(
    program: Program, clause: Clause, variant: Variant | None, runtime: Runtime
) -> tuple[str, dict[str, object]]:
    writer = Writer()
    writer.depth = 2
    maps = MapCode(program, runtime.maps, writer)
    expressions = Expressions(clause, variant, runtime, maps, writer)
    statements = Statements(expressions, maps, writer, runtime.maps, runtime.emit)
    if clause.kind in ("probe", "interval"):
        with writer.block(f"if {expressions.runtime_name}.exiting:"):
            writer.line("return")
    if expressions.leaves:
        writer.line(f"({''.join(f'{name}, ' for name in expressions.leaves.values()).rstrip()}) = hit")
    for slot, type in enumerate(clause.slots):
        writer.line(f"v{slot} = {writer.bind(empty_value(type), 'empty')}")
    start = writer.mark()
    if clause.predicate is not None:
        condition = expressions.condition(clause.predicate)
        with writer.block(f"if not {condition}:"):
            writer.line("return")
    statements.block(clause.body)
    for told in expressions.told.values():
        writer.insert(start, f"{told} = False")
    # The bound values are parameters of an outer function: local lookups, not global ones, while a clause runs.
    source = f"def make({', '.join(writer.names)}):\n    def clause(hit):\n{writer.text()}    return clause\n"
    return source, writer.names
