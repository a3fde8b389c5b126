"""Events that are about other threads than the one in which they happen, where some processes alone are traced.

`sched:sched_switch` happens in the thread that leaves the CPU and is about the one that comes, too; a wake-up happens
in whoever wakes. A hit counts where any of these threads is traced. So such an event is read machine-wide, and its
clause begins with that question.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracer.dataclass import replace
from tracer.errors import Diagnostic, ProgramError
from tracer.host.first_namespace import in_first_pid_namespace
from tracer.kinds.site import Site
from tracer.lang.macros.said import placed
from tracer.lang.syntax import ast

_ABOUT = "it is about the thread of {}, which need not be the one that it happens in"
_COMPARE = "trace all processes, and compare its fields"


def with_other_threads(tree: ast.Program, sites: Mapping[int, tuple[Site, ...]]) -> ast.Program:
    """The program whose clauses of such events ask whether one of the threads is traced. Raises `ProgramError`."""
    clauses, refused = list(tree.clauses), list[Diagnostic]()
    for index, clause_sites in sites.items():
        about = [site for site in clause_sites if site.others]
        if not about:
            continue
        clause = tree.clauses[index if index >= 0 else -1 - index]
        point = (clause.until if index < 0 else None) or clause.points[about[0].point]
        reason, hint = _refusal(clause_sites, clause)
        if reason:
            what = f"{about[0].shown} cannot be traced for some processes alone: {reason}"
            refused.append(Diagnostic(what, point.span, hint))
            continue
        asked = " || ".join([f"traced({thread})" for thread in ("tid", *(f"args.{name}" for name in about[0].others))])
        (statement,) = placed(asked, point.span)
        assert isinstance(statement, ast.ExprStmt)
        whole = statement.expr
        if clause.predicate is not None:
            whole = ast.Binary(clause.predicate.span, "&&", whole, clause.predicate)
        clauses[index] = replace(clause, predicate=whole)
    if refused:
        raise ProgramError(tree.source, refused)
    return replace(tree, clauses=tuple(clauses))


def _refusal(sites: tuple[Site, ...], clause: ast.Clause) -> tuple[str, str]:
    """Why the question cannot be asked, and what to do; "" where it can."""
    threads = {site.others for site in sites}
    about = _ABOUT.format(" and of ".join(next(filter(None, (site.others for site in sites)))))
    if clause.until is not None:
        return f"{about}, and a span is of one thread", _COMPARE
    if len(threads) > 1:
        return f"{about}, and others of the clause name theirs otherwise, or none", "write a clause for each"
    if not in_first_pid_namespace():
        return f"{about}, and it has the numbers of threads that they have outside of this container", _COMPARE
    return "", ""
