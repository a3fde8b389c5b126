"""The plan as text, for `-d plan`, `--dry-run` and the golden tests."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.errors import printable
from tracer.kinds.registry import kind_of
from tracer.kinds.site import FileSite, Site, in_files
from tracer.lang.typed import MapDecl
from tracer.plan.model import Plan, Variant


def dump(plan: Plan) -> str:
    """The text of the plan, but for the statements, which `-d typed` shows."""
    return "\n".join(_lines(plan)) + "\n"


def dump_steps(plan: Plan) -> str:
    """The steps of every clause."""
    from tracer.steps.dump import dump as lines

    rows: list[str] = []
    for clause in plan.program.clauses:
        rows.append(f"clause {clause.id} {', '.join(map(printable, clause.names))}")
        rows += [f"  {line}" for line in lines(plan.steps[clause.id])]
    return "\n".join(rows) + "\n"


def site_line(site: Site) -> str:
    """The line of a site: what it is, and where."""
    parts = [f"{site.kind} {site.probe}", *(part for place in in_files((site,)) for part in _place(place))]
    if kind_of(site).has_notes and site.args:
        parts.append("args " + " ".join(arg.text for arg in site.args))
    return "  ".join(parts)


def _place(site: FileSite) -> Iterator[str]:
    yield f"file {printable(site.path)}"
    yield f"address {site.address:#x}"
    yield f"offset {site.offset:#x}"
    if site.guard is not None:
        yield f"semaphore {site.guard:#x}"


def _lines(plan: Plan) -> Iterator[str]:
    for decl in plan.program.maps.values():
        yield f"map {_map(decl)}"
    for clause in plan.user:
        period = f" every {clause.period_ns} ns" if clause.period_ns else ""
        yield f"clause {clause.id} {clause.kind.name}{period}: in user space"
    for probe in plan.probes:
        yield f"clause {probe.clause.id} {', '.join(probe.clause.names)}"
        for variant in probe.variants:
            yield from _variant(variant)
    for need in plan.needs:
        yield f"needs {need.feature.name}: {need.construct}"


def _variant(variant: Variant) -> Iterator[str]:
    args = "".join(f"  arg{index} = {spec.text or spec.operand}" for index, spec in variant.args.items())
    texts = "".join(
        f"  {name} = {told.decode(errors='surrogateescape') if isinstance(told, bytes) else told}"
        for name, told in variant.told.items() if told
    )  # fmt: skip
    yield f"  variant {variant.id}{args}{texts}"
    for site in variant.sites:
        yield f"    {site_line(site)}"


def _map(decl: MapDecl) -> str:
    key = f"[{', '.join(map(str, decl.key))}]" if decl.key else ""
    parameters = f"({', '.join(map(str, decl.parameters))})" if decl.parameters else ""
    return f"{decl.name}{key}: {decl.kind}{parameters} of {decl.value}"
