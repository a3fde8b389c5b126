"""What a program asks of a backend: one `Need` per construct, at the place where the user wrote it."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.errors import Span
from tracer.interp.fetch import is_fetchable
from tracer.lang.typed import (
    Aggregate,
    Arg,
    Builtin,
    Clause,
    Clear,
    Delete,
    ForRange,
    HasKey,
    Load,
    MapGet,
    MapLen,
    Program,
    Str,
    Strcontains,
    Strlen,
    UStack,
    USym,
    While,
    Zero,
)
from tracer.lang.walk import Node, walk_clause
from tracer.plan.features import Feature
from tracer.plan.model import Need, ProbePlan
from tracer.resolve.model import Global, Mem, Site

_OWNER = frozenset({"uid", "gid", "username"})


def needs(program: Program, probes: tuple[ProbePlan, ...], follow: bool = False) -> tuple[Need, ...]:
    """The needs of all probe clauses, each feature and place once. What runs in user space needs nothing."""
    found: dict[tuple[Feature, Span], Need] = {}
    for probe in probes:
        for need in (*_of_sites(probe), *_of_body(program, probe), *_of_maps(program, probe)):
            found.setdefault((need.feature, need.span), need)
    if follow and probes:
        # It stands on the command line; the first probe is what cannot be attached without it.
        need = Need(Feature.FOLLOW, "--follow", probes[0].clause.span)
        found[need.feature, need.span] = need
    return tuple(found.values())


def _of_sites(probe: ProbePlan) -> Iterator[Need]:
    span = probe.clause.span
    first: dict[Feature, Site] = {}
    kinds: set[tuple[str, bool]] = set()
    for variant in probe.variants:
        for site in variant.sites:
            kind = site.kind, site.semaphore is None
            if kind in kinds:
                continue
            kinds.add(kind)
            first.setdefault(Feature.URETPROBE if site.kind == "uretprobe" else Feature.UPROBE, site)
            if site.semaphore is not None:
                first.setdefault(Feature.SEMAPHORE, site)
    for feature, site in first.items():
        yield Need(feature, f"the semaphore of {site.probe}" if feature is Feature.SEMAPHORE else site.probe, span)


def _of_body(program: Program, probe: ProbePlan) -> Iterator[Need]:
    for node in walk_clause(probe.clause):
        if isinstance(node, Arg):
            yield from _of_argument(probe, node)
        else:
            need = _of_node(program, probe.clause, node)
            if need is not None:
                yield need


def _of_maps(program: Program, probe: ProbePlan) -> Iterator[Need]:
    """What probes ask of a map that other clauses change as a whole."""
    # No hit comes after END.
    user = [node for clause in program.clauses if clause.kind in ("begin", "interval") for node in walk_clause(clause)]
    filled = {node.map for node in user if isinstance(node, Aggregate)}
    emptied = {node.map for node in user if isinstance(node, Zero) and program.maps[node.map].kind != "scalar"}
    probes = [node for clause in program.clauses if clause.kind == "probe" for node in walk_clause(clause)]
    cleared = {node.map for node in probes if isinstance(node, Clear)}
    zeroed = {node.map for node in probes if isinstance(node, Zero)}
    for node in walk_clause(probe.clause):
        if not isinstance(node, MapLen | HasKey | Delete | MapGet):
            continue
        construct = {MapLen: f"len({node.map})", HasKey: f"has_key({node.map})", Delete: f"delete({node.map})"}.get(
            type(node), f"{node.map} as a value"
        )
        zeros = node.map in zeroed and not isinstance(node, MapGet)
        if zeros or (node.map in cleared and isinstance(node, MapLen)):
            yield Need(Feature.KEYS_OF_CLEARED, construct, node.span)
        if isinstance(node, Delete):
            continue
        if node.map in filled or (node.map in emptied and not isinstance(node, MapGet)):
            yield Need(Feature.SHARED_AGGREGATION, construct, node.span)


def _of_argument(probe: ProbePlan, arg: Arg) -> Iterator[Need]:
    for variant in probe.variants:
        spec = variant.args[arg.index]
        construct = f"arg{arg.index} at {spec.text}"
        if isinstance(spec.operand, Mem) and spec.operand.index is not None:
            yield Need(Feature.MEMORY_INDEXED, construct, arg.span)
        elif isinstance(spec.operand, Global) and spec.operand.index is not None:
            yield Need(Feature.GLOBAL_INDEXED, construct, arg.span)


def _of_node(program: Program, clause: Clause, node: Node) -> Need | None:
    match node:
        case Builtin(name="pid" | "tid" as name):
            return Need(Feature.NUMBERS, name, node.span)
        case Builtin(name=name) if name in _OWNER:
            return Need(Feature.UID, name, node.span)
        case Str():
            fetchable = is_fetchable(node.address)
            return Need(Feature.STRING if fetchable else Feature.STRING_COMPUTED, "str()", node.span)
        case Load():
            fetchable = is_fetchable(node.address)
            return Need(Feature.LOAD if fetchable else Feature.LOAD_COMPUTED, "*", node.span)
        case UStack():
            return Need(Feature.USER_STACK, "ustack", node.span)
        case USym():
            return Need(Feature.SYMBOL, "usym()", node.span)
        case While():
            return Need(Feature.LOOP, "while", node.span)
        case ForRange():
            return Need(Feature.LOOP, "for", node.span)
        case MapLen():
            return Need(Feature.MAP_LENGTH, f"len({node.map})", node.span)
        case MapGet() if program.maps[node.map].kind != "scalar":
            return Need(Feature.AGGREGATION_READ, f"{node.map} as a value", node.span)
        case Strlen():
            return Need(Feature.STRING_FUNCTIONS, "strlen()", node.span)
        case Strcontains():
            return Need(Feature.STRING_FUNCTIONS, "strcontains()", node.span)
        case _:
            return None
