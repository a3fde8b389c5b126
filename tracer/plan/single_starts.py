"""Programs that keep the beginning of one call of each thread, `@start[tid] = nsecs;`, of a function that calls itself.

The inner call takes the place of the outer one, whose duration is then not told, or is another's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracer.errors import Diagnostic
from tracer.kinds.site import in_files
from tracer.lang.typed import Builtin, Cast, Clause, Expr, MapGet, MapSet, Program
from tracer.lang.walk import walk_clause


def single_starts(program: Program) -> Iterator[Diagnostic]:
    """A warning for each such map."""
    told: set[str] = set()
    for returning in program.clauses:
        nested = {
            (site.path, site.function): site for site in in_files(returning.sites) if site.is_at_return and site.nests
        }
        read = {node.map for node in walk_clause(returning) if isinstance(node, MapGet) and _by_thread(node.key)}
        for entering in program.clauses if nested and read else ():
            both = [
                nested[site.path, site.function]
                for site in in_files(entering.sites)
                if (site.path, site.function) in nested and not site.is_at_return
            ]
            for node in _starts(entering) if both else ():
                if node.map in read - told:
                    told.add(node.map)
                    function = both[0].function
                    yield Diagnostic(
                        f"{node.map}[tid] keeps one call of each thread, but {function} calls itself:"
                        " of calls inside each other only the innermost is timed right",
                        node.span, f"call:FILE:{function} {{ … duration … }} times each", "warning",
                    )  # fmt: skip


def _starts(clause: Clause) -> Iterator[MapSet]:
    """Finds where a clause keeps the time by thread."""
    for node in walk_clause(clause):
        if isinstance(node, MapSet) and _by_thread(node.key) and _is(node.value, "nsecs"):
            yield node


def _by_thread(key: tuple[Expr, ...]) -> bool:
    return len(key) == 1 and _is(key[0], "tid")


def _is(node: Expr, name: str) -> bool:
    node = node.operand if isinstance(node, Cast) else node
    return isinstance(node, Builtin) and node.name == name
