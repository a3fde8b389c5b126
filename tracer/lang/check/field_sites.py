"""Clauses that read fields by name, `args.pid`, over events that keep these in different places, or of another type.

A clause is checked and compiled once for all its sites. So where the third field of one event is the second of another
(`sys_enter_tgkill` and `sys_enter_kill`), the clause becomes several, one for each form of what it reads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from tracer.kinds.kernel_event import Field
from tracer.kinds.site import Site
from tracer.lang.check.variable_sites import asked_of, restricted
from tracer.lang.scope.context import Unit


def split(unit: Unit) -> Iterator[Unit]:
    """The unit, or those that it becomes. Its number is that of the first. A field that an event has not is the
    checker's to say.
    """
    names = [name for word, name in asked_of(unit.clause) if word == "args"]
    groups: dict[Hashable, list[Site]] = {}
    for site in unit.sites if names else ():
        groups.setdefault(tuple([_form(site, name) for name in names]), []).append(site)
    if len(groups) < 2:
        yield unit
        return
    for number, sites in enumerate(groups.values()):
        yield restricted(unit, sites, unit.number + number)


def _form(site: Site, name: str) -> Hashable:
    """Equal at events that can share a clause which reads a field, or all of them without a name."""
    return tuple([
        (spec.text, index, field.declared, field.size, field.signed)
        for index, spec in enumerate(site.args)
        if isinstance(field := spec.operand, Field) and name in ("", spec.text)
    ])  # fmt: skip
