"""The needs of a program, which a backend must meet: one `Need` per construct, at the place where the user wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tracer.errors import Span
from tracer.kinds.model import ClauseKind
from tracer.kinds.site import FileSite, Global, Mem
from tracer.lang import features
from tracer.lang.aggregations.registry import kept_of
from tracer.lang.features import Feature
from tracer.lang.typed import Program
from tracer.lang.types import has_stack, operations
from tracer.plan.model import Need, ProbePlan
from tracer.steps.model import (
    Block,
    Each,
    Empty,
    Exit,
    Fetch,
    GetSlot,
    If,
    Leave,
    Let,
    MapAdd,
    MapDelete,
    MapGet,
    MapHas,
    MapLength,
    MapSet,
    Printf,
    SetSlot,
    Step,
    Steps,
    Update,
)
from tracer.steps.values import Argument, Const, Name, Op, SiteText, UserStack, Value
from tracer.steps.walk import blocks, defined, parts, used, walk


def needs(
    program: Program, probes: tuple[ProbePlan, ...], steps: Mapping[int, Steps], follow: bool = False,
    shared: bool = False,
) -> tuple[Need, ...]:
    """The needs of all probe clauses, each feature and place once. What runs in user space needs nothing."""
    needs_by_place: dict[tuple[Feature, Span], Need] = {}
    for probe in probes:
        clause_steps = steps[probe.clause.id]
        asked = (Need(ask.feature, ask.construct, ask.span) for ask in clause_steps.asks)
        stacks = _of_stacks(clause_steps, program.config.stack_unwind == "fp")
        maps = (*_of_maps(program, clause_steps, steps), *_of_joins(program, clause_steps))
        for need in (*_of_sites(probe), *asked, *_of_arguments(probe, clause_steps), *maps, *stacks):
            needs_by_place.setdefault((need.feature, need.span), need)
    if (follow or shared) and probes:
        # It stands on the command line; the error is shown under the first probe, which needs it.
        construct = "--follow" if follow else "-p with so many processes for so many places"
        need = Need(features.FOLLOW, construct, probes[0].clause.span)
        needs_by_place[need.feature, need.span] = need
    return tuple(needs_by_place.values())


def _of_sites(probe: ProbePlan) -> Iterator[Need]:
    span = probe.clause.span
    first: dict[Feature, FileSite] = {}
    kinds: set[tuple[str, bool]] = set()
    for variant in probe.variants:
        for site in variant.places:
            kind = site.kind, site.semaphore is None
            if kind in kinds:
                continue
            kinds.add(kind)
            first.setdefault(features.URETPROBE if site.is_return_probe else features.UPROBE, site)
            if site.semaphore is not None:
                first.setdefault(features.SEMAPHORE, site)
    for feature, site in first.items():
        yield Need(feature, f"the semaphore of {site.shown}" if feature is features.SEMAPHORE else site.shown, span)


def _of_arguments(probe: ProbePlan, steps: Steps) -> Iterator[Need]:
    for step in walk(steps.body):
        if not (isinstance(step, Fetch) and isinstance(step.source, Argument)):
            continue
        for variant in probe.variants:
            spec = variant.args[step.source.index]
            construct = f"arg{step.source.index} at {spec.text}"
            if isinstance(spec.operand, Mem) and spec.operand.index is not None:
                yield Need(features.MEMORY_INDEXED, construct, step.span)
            elif isinstance(spec.operand, Global) and spec.operand.index is not None:
                yield Need(features.GLOBAL_INDEXED, construct, step.span)


def _of_joins(program: Program, steps: Steps) -> Iterator[Need]:
    """join() prints in as many places as there can be strings; two that follow each other multiply."""
    if any(output.kind == "join" for output in program.outputs.values()):
        _, most = _joins(program, steps.body)
        yield from (Need(features.JOINS, "a second join()", span) for span in most[1:])


def _joins(program: Program, block: Block) -> tuple[tuple[Span, ...] | None, tuple[Span, ...]]:
    """The most joins on one path through a block: on a path that continues after it, if any does, and on any path."""
    here: tuple[Span, ...] = ()
    most: tuple[Span, ...] = ()
    for step in block:
        if isinstance(step, Printf) and (output := program.outputs.get(step.format)) is not None:
            here += (output.span,) if output.kind == "join" else ()
        ways = [_joins(program, below) for below in blocks(step)]
        most = max(most, *((*here, *any) for _, any in ways), key=len) if ways else most
        on = [way for way, _ in ways if way is not None]
        if isinstance(step, Leave | Exit) or (isinstance(step, If) and not on):
            return None, max(most, here, key=len)
        here += max(on, key=len, default=())
    return here, max(most, here, key=len)


_CARRY = (operations.AS, operations.ITEM, operations.SELECT, operations.TUPLE)
"""Operations that hand values on as they are."""


def _of_stacks(steps: Steps, at_hit: bool) -> Iterator[Need]:
    """The needs of a clause that does more with stacks than to show them, keep them, and add to what stands under them.
    `known`: at the hit, without the functions of interpreters.
    """
    reads = [
        step for step in walk(steps.body)
        if isinstance(step, Fetch) and isinstance(step.source, UserStack) and (step.source.interpreted or not at_hit)
    ]  # fmt: skip
    spans: dict[object, Span] = {read.name: read.span for read in reads}
    for step in walk(steps.body) if reads else ():
        key = step.key if isinstance(step, MapGet | MapHas | MapSet | MapAdd | MapDelete) else ()
        inner = (part for value in used(step) for part in parts(value) if isinstance(part, Op))
        args = (arg for part in inner if part.op not in _CARRY for arg in part.args)
        computed = [value for value in (*key, *args) if not isinstance(value, SiteText) and has_stack(value.type)]
        if computed:
            span = next(_spans_of(spans, computed), reads[0].span)
            yield Need(features.STACK_COMPUTED, "a stack that is not only shown or counted", span)
        # What is made of a stack, and the variable that has it, lead to it.
        held = (step.slot,) if isinstance(step, GetSlot) else tuple(used(step))
        read = next(_spans_of(spans, held), None)
        if read is not None and isinstance(step, SetSlot | Let | GetSlot):
            spans[step.slot if isinstance(step, SetSlot) else step.name] = read


def _spans_of(spans: Mapping[object, Span], values: Iterable[Value | int]) -> Iterator[Span]:
    for value in values:
        for part in (value,) if isinstance(value, int) else parts(value):
            if part in spans:
                yield spans[part]


def _of_maps(program: Program, clause_steps: Steps, steps: Mapping[int, Steps]) -> Iterator[Need]:
    """Needs of probes that read a map which other clauses change as a whole."""
    # No hit comes after END.
    user = list(_steps(program, steps, lambda kind: not kind.at_hits and not kind.last))
    filled = {step.map for step in user if isinstance(step, Update)}
    emptied = {
        step.map for step in user if isinstance(step, Empty) and step.zero and program.maps[step.map].kind != "scalar"
    }
    probes = [step for step in _steps(program, steps, lambda kind: kind.at_hits) if isinstance(step, Empty)]
    cleared = {step.map for step in probes if not step.zero}
    zeroed = {step.map for step in probes if step.zero}
    for step in walk(clause_steps.body):
        match step:
            case MapLength():
                construct = f"len({step.map})"
            case MapHas():
                construct = f"has_key({step.map})"
            case MapDelete():
                construct = f"delete({step.map})"
            case MapGet():
                construct = f"{step.map} as a value"
            case Each():
                construct = f"for over {step.map}"
                yield from _of_walk(program, clause_steps, step, construct)
            case _:
                continue
        if program.maps[step.map].forgets and isinstance(step, MapLength):
            yield Need(features.LENGTH_FORGETS, construct, step.span)
            continue
        if kept_of(program.maps[step.map]).in_user_space:
            yield Need(features.SERIES_KEYS, construct, step.span)
            continue
        zeros = step.map in zeroed and not isinstance(step, MapGet)
        if zeros or (step.map in cleared and isinstance(step, MapLength)):
            yield Need(features.KEYS_OF_CLEARED, construct, step.span)
        if isinstance(step, MapDelete):
            continue
        if step.map in filled or (step.map in emptied and not isinstance(step, MapGet)):
            yield Need(features.SHARED_AGGREGATION, construct, step.span)


_FEW_KEYS = 1024
"""Room for so many is looked at in 20 us (Linux 6.18, in a virtual machine), which is what a hit costs on ftrace."""


def _of_walk(program: Program, clause_steps: Steps, loop: Each, construct: str) -> Iterator[Need]:
    """Further needs of a loop over a map: a large map, one with stacks, a body that changes other keys."""
    decl = program.maps[loop.map]
    if program.most_keys(loop.map) > _FEW_KEYS:
        yield Need(features.MAP_WALK_LARGE, construct, loop.span)
    if any(map(has_stack, (*decl.key, decl.value))):
        yield Need(features.STACK_COMPUTED, construct, loop.span)
    definitions = {name: step for step in walk(clause_steps.body) if (name := defined(step)) is not None}

    def origin(value: Value) -> Value:
        step = definitions.get(value) if isinstance(value, Name) else None
        if isinstance(step, Let):
            return origin(step.value)
        return origin(value.args[0]) if isinstance(value, Op) and value.op is operations.AS else value

    def is_item(value: Value, index: int, of: Callable[[Value], bool]) -> bool:
        match origin(value):
            case Op(op=operations.ITEM, args=(whole, Const(value=number))):
                return number == index and of(whole)
        return False

    def is_key(value: Value) -> bool:
        return is_item(value, 0, lambda whole: origin(whole) == loop.name)

    for step in walk(loop.body):
        if isinstance(step, MapSet | MapAdd | Update | MapDelete) and step.map == loop.map:
            parts = step.key
            alone = len(parts) == 1 and is_key(parts[0])
            if not (alone or all(is_item(part, index, is_key) for index, part in enumerate(parts))):
                yield Need(features.MAP_WALK_CHANGED, construct, loop.span)
                return


def _steps(program: Program, steps: Mapping[int, Steps], of: Callable[[ClauseKind], bool]) -> Iterator[Step]:
    for clause in program.clauses:
        if of(clause.kind):
            yield from walk(steps[clause.id].body)
