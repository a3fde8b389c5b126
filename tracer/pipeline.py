"""The stages in order, and nothing else: the file to read first.

    text → parse → AST → expand (attach points → sites) → analyse → typed program → lower → steps → Plan → choose →
    compile → Program → open, attach → Session → events, maps → render

Each arrow is one function; each result is an immutable value that `-d` can print. Nothing before `open` needs root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from tracer.dataclass import dataclass, replace
from tracer.errors import Diagnostic, ProgramError, Source, TracerError
from tracer.kinds.registry import KINDS, awaits_files, is_return
from tracer.kinds.site import EVERY_PROCESS, Site, Target, places_among

if TYPE_CHECKING:
    from tracer.backends import Surroundings
    from tracer.backends.base import CompiledProgram, Session
    from tracer.backends.choose import Activation, Choice
    from tracer.backends.fallback import FallbackSession
    from tracer.kinds.model import AttachPoint, Machine
    from tracer.kinds.site import Spot
    from tracer.lang.syntax.ast import Program as Tree
    from tracer.lang.types.declared import OfKernel
    from tracer.plan.model import Plan, Variant
    from tracer.resolve.dwarf.debug_info import DebugInfo
    from tracer.resolve.files.paths import Found
    from tracer.resolve.listing import Listed


_MOST_PAIRS = 200_000


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan with the backend that will run it; `program` is None where nothing is traced (BEGIN, END, interval).
    `forced`: the user has named the backend. `by_hand`: the tracer counts the semaphores itself; the program then knows
    none.
    """

    plan: Plan
    backend: str | None
    program: CompiledProgram | None
    notes: tuple[str, ...]
    forced: bool = False
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class More:
    """Files that processes have mapped since a plan was made."""

    plan: Plan
    files: Sequence[Found]

    def of_point(self, point: AttachPoint) -> Sequence[Found]:
        """The files that an attach point means."""
        from tracer.resolve.files.awaited import meets

        return [file for file in self.files if meets(point, file)]

    @property
    def taken(self) -> int:
        """How many sites there are already."""
        return sum(map(len, (self.plan.sites_so_far or {}).values()))

    def of(self, whole: Plan, added: Collection[Spot]) -> Plan:
        """The part of a plan of all sites that is about those of these files. Raises `TracerError` where it does not go
        with the plan that is there.
        """
        before = self.plan.program
        for name, decl in before.maps.items():
            now = whole.program.maps.get(name)
            if now is None or (now.key, now.value, now.kind) != (decl.key, decl.value, decl.kind):
                raise TracerError(f"with it {name} would hold values of another type")
        forms = [(probe.clause.id, probe.clause.names) for probe in self.plan.probes]
        if forms != [(probe.clause.id, probe.clause.names) for probe in whole.probes]:
            raise TracerError("it keeps what the program reads in other places than the files that were there")
        if (before.formats, before.shapes) != (whole.program.formats, whole.program.shapes):
            raise TracerError("with it the program would print values of another type")
        probes = tuple([replace(probe, variants=tuple(_only(probe.variants, added))) for probe in whole.probes])
        return replace(
            whole, probes=probes, separate_points=self.plan.separate_points, priority=self.plan.priority,
            needs=whole.needs,
        )  # fmt: skip


def _only(variants: Sequence[Variant], added: Collection[Spot]) -> Iterator[Variant]:
    for variant in variants:
        sites = tuple([site for site in variant.sites if site.spot in added])
        if sites:
            yield replace(variant, sites=sites)


def plan(
    source: Source,
    params: Sequence[str] = (),
    target: Target = EVERY_PROCESS,
    environment: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
    later: bool = False,
    more: More | None = None,
) -> tuple[Plan, list[Diagnostic]]:
    """Text → Plan, with the warnings. Raises `ProgramError` with everything that is wrong.

    `environment` may set what `config = { … }` sets (BPFTRACE_MAX_STRLEN and its kin), and so may what is `given` for
    this run, by the names of the settings. `analyse` reports errors in any. `later`: files may come later (see
    `expand`). `more`: the plan is of the sites that files add.
    """
    from tracer.lang.syntax.parser import parse

    tree = parse(source, params)
    from tracer.lang.analyse import analyse, end_of
    from tracer.lang.config import configure
    from tracer.lang.syntax.ast import Call, Name
    from tracer.lang.walk import walk_program
    from tracer.resolve.sites.expand import expand

    left_out: list[Diagnostic] = []
    config = configure(tree.config, environment, given)[0]
    spans = [index for index, clause in enumerate(tree.clauses) if clause.until is not None]
    whole = _with_ends(tree, spans)
    sites = expand(
        whole, target, config.max_probes, left_out,
        missing=config.missing_probes, unsafe_returns=config.unsafe_returns, inlined=config.inlined,
        filtered=_filters_end_returns(tree),
        later=later, within=None if more is None else more.of_point, taken=0 if more is None else more.taken,
        machine=machine if more is None else None,
    )  # fmt: skip
    if spans:
        count = len(tree.clauses)
        sites = {
            end_of(spans[index - count]) if index >= count else index: clause_sites
            for index, clause_sites in sites.items()
        }
    places = places_among(chain.from_iterable(sites.values()))
    named = (node.name.removeprefix("__builtin_") for node in walk_program(tree) if isinstance(node, Name | Call))
    if places and not {"line", "file"}.isdisjoint(named):
        from tracer.resolve.source_places import with_sources

        sites = with_sources(sites)
        places = places_among(chain.from_iterable(sites.values()))
    if any([site.nop10 for site in places]):
        from tracer.kernel.trials.nop10 import at_fast_nops

        sites = at_fast_nops(sites, places)
        places = places_among(chain.from_iterable(sites.values()))
    added = frozenset(site.spot for site in places)
    if more is not None:
        sites = {index: (*earlier, *sites.get(index, ())) for index, earlier in (more.plan.sites_so_far or {}).items()}
        places = places_among(chain.from_iterable(sites.values()))

    @lru_cache(maxsize=1)
    def outside() -> DebugInfo:
        from tracer.resolve.dwarf.debug_info import DebugInfo
        from tracer.resolve.functions.unused_results import unused
        from tracer.resolve.symbols.demangle import demangler

        def finder() -> Any:
            from tracer.resolve.variables.places import Variables

            return Variables

        return DebugInfo(places, demangler, unused, finder)

    if _is_limited(target, sites) and any(site.others for every in sites.values() for site in every):
        from tracer.plan.other_threads import with_other_threads

        tree = with_other_threads(tree, sites)
    tree = replace(tree, types=replace(tree.types, kernel=kernel_types, outside=outside if places else None))
    try:
        typed = analyse(tree, sites, environment, given)
    finally:
        if outside.cache_info().currsize:
            outside().keep()
    if spans or any([site.ends for site in places]):
        from tracer.plan.calls.exits import with_exits

        typed = with_exits(typed, machine())
    from tracer.plan.check import check_arguments
    from tracer.plan.lower import lower

    awaits = later and any(awaits_files(point) for clause in whole.clauses for point in clause.points)
    shared = are_too_many(target, len(places)) if more is None else more.plan.shared
    lowered = lower(typed, target.follow, shared or _is_limited(target, sites), sites if awaits else None)
    diagnostics = [*left_out, *typed.warnings, *check_arguments(lowered)]
    if any([site.nests and site.is_at_return for site in places]):
        from tracer.plan.single_starts import single_starts

        diagnostics += single_starts(typed)
    errors = [diagnostic for diagnostic in diagnostics if diagnostic.severity == "error"]
    if errors:
        raise ProgramError(tree.source, errors)
    return lowered if more is None else more.of(lowered, added), diagnostics


def _with_ends(tree: Tree, spans: Sequence[int]) -> Tree:
    """The program with a clause more for the end of each span."""
    if not spans:
        return tree
    points = [point for index in spans if (point := tree.clauses[index].until) is not None]
    ends = [replace(tree.clauses[index], points=(point,)) for index, point in zip(spans, points, strict=True)]
    return replace(tree, clauses=(*tree.clauses, *ends))


@lru_cache(maxsize=1)
def kernel_types() -> OfKernel | None:
    """The types of the running kernel; None where it does not tell them."""
    from tracer.resolve.kernel_types import KernelTypes

    try:
        return KernelTypes.own()
    except (OSError, ValueError):
        return None


def machine() -> Machine:
    """What knows the kernel's events."""
    from tracer.kernel.kernel_events import KernelEvents

    return KernelEvents()


def _is_limited(target: Target, sites: Mapping[int, tuple[Site, ...]]) -> bool:
    """Whether some processes alone are traced, and programs run at the hits of others too."""
    traced = bool(target.pids) or target.program is not None
    return traced and any(site.everywhere for clause_sites in sites.values() for site in clause_sites[:1])



def are_too_many(target: Target, places: int) -> bool:
    """Whether the processes are too many for probes of their own: to attach these takes some 5 us for each place and
    pair of processes (Linux 6.18), since the kernel asks every consumer of a place about every process.
    """
    return len(target.fixed) > 1 and places * len(target.fixed) ** 2 > _MOST_PAIRS


def _filters_end_returns(tree: Tree) -> bool:
    """Whether the program has return probes, and this kernel ends programs with a seccomp filter at one."""
    if not any(is_return(point) for clause in tree.clauses for point in clause.points):
        return False
    from tracer.kernel.trials.filtered_returns import end_filtered_programs

    return end_filtered_programs()


def probes(
    source: Source, params: Sequence[str] = (), target: Target = EVERY_PROCESS,
    environment: Mapping[str, str] | None = None, given: Mapping[str, str] | None = None,
) -> tuple[list[Listed], list[Diagnostic]]:
    """The probes that a program would be attached to, point by point in the order of the text, and warnings of what is
    left out. As in bpftrace's lists BEGIN and END are none, an interval is its unit (`interval:s:`), and an
    attach point without a match is no error where its clause has others.
    """
    from tracer.lang.config import configure
    from tracer.lang.syntax.parser import parse
    from tracer.resolve.listing import Listed, of_events, of_sites
    from tracer.resolve.sites.expand import expand

    tree = parse(source, params)
    config = configure(tree.config, environment, given)[0]
    tree = _with_ends(tree, [index for index, clause in enumerate(tree.clauses) if clause.until is not None])
    clauses = tuple(replace(clause, points=(point,)) for clause in tree.clauses for point in clause.points)
    missing = "ignore" if config.missing_probes == "ignore" else "warn"
    warnings: list[Diagnostic] = []
    sites = expand(
        replace(tree, clauses=clauses), target, config.max_probes, warnings,
        missing=missing, unsafe_returns=config.unsafe_returns, inlined=config.inlined, machine=machine,
    )  # fmt: skip
    point_sites = {id(clause.points[0]): sites[index] for index, clause in enumerate(clauses)}
    listed: list[Listed] = []
    for clause in tree.clauses:
        before = len(listed)
        for point in clause.points:
            if KINDS[point.kind].units:
                unit = f"{point.kind}:{point.text.split(':')[1]}:"
                listed.append(Listed(unit, point.kind, "", None, unit, ()))
            listed += of_sites(places_among(point_sites[id(point)]), (point,))
            listed += of_events(site for site in point_sites[id(point)] if site.declarations)
        if len(listed) == before and config.missing_probes == "error":
            expand(replace(tree, clauses=(clause,)), target, machine=machine)  # which says what is wrong
    return listed, warnings


def compile(
    plan: Plan, forced: str | None = None, need_usable: bool = True, activation: Activation | None = None
) -> Compiled:
    """Plan → Program on the backend that can run it; without `activation` semaphores are the kernel's alone."""
    if not plan.probes:
        return Compiled(plan, None, None, ())
    from tracer.backends.choose import Activation, choose

    choice = choose(plan, forced, need_usable, activation or Activation.REFUSED)
    program = _program(choice, plan)
    return Compiled(plan, choice.backend.name, program, choice.passed_over, forced is not None, choice.by_hand)


def _program(choice: Choice, plan: Plan) -> CompiledProgram:
    if choice.by_hand:
        from tracer.backends.activation import without_semaphores

        plan = without_semaphores(plan)
    return choice.backend.compile(plan)


def open_session(
    compiled: Compiled, target: Target, around: Surroundings
) -> Session | FallbackSession[Compiled]:
    """Program → Session, with its maps but nothing attached yet; `around` is what it needs of the trace around it.

    Only the kernel knows whether it takes a program, and whether it attaches it. If it does not, the program goes to
    the next backend, unless the user has named this one: `running` says then what runs, and its last note why.
    """
    if compiled.program is None:
        from tracer.backends.local import LocalSession

        return LocalSession(compiled.plan, around)
    from tracer.backends.fallback import FallbackSession
    from tracer.backends.precheck import refuse_emulated, refuse_rewritten

    refuse_emulated(compiled.plan, target)
    if any(site.red_zone for site in compiled.plan.places):
        refuse_rewritten(compiled.plan)
    return FallbackSession(compiled, partial(_opened, target, around), _instead)


def _opened(target: Target, around: Surroundings, compiled: Compiled) -> Session:
    from tracer.backends.choose import BACKENDS

    assert compiled.program is not None and compiled.backend is not None
    session = BACKENDS[compiled.backend]().open(compiled.program, target, around)
    if not compiled.by_hand and all([site.raised is None for site in compiled.plan.places]):
        return session
    from tracer.backends.activation import ActivatedSession, semaphores

    return ActivatedSession(session, semaphores(compiled.plan, kernel=not compiled.by_hand), target, around.wake)


def _instead(compiled: Compiled, error: TracerError) -> Compiled | None:
    """The program for the next backend, with a note why; None where there is none."""
    from tracer.backends.choose import BACKENDS, Activation, choose

    names = list(BACKENDS)
    if compiled.forced or compiled.backend is None:
        return None
    for name in names[names.index(compiled.backend) + 1 :]:
        try:
            choice = choose(
                compiled.plan, name, activation=Activation.BY_HAND if compiled.by_hand else Activation.REFUSED
            )
        except TracerError:
            continue
        note = f"using {name}, not {compiled.backend}: {error.message}"
        notes = (*compiled.notes, note)
        return Compiled(compiled.plan, name, _program(choice, compiled.plan), notes, by_hand=choice.by_hand)
    return None


def dump(
    stage: str, source: Source, params: Sequence[str], target: Target, forced: str | None = None,
    environment: Mapping[str, str] | None = None, activation: Activation | None = None,
    given: Mapping[str, str] | None = None,
) -> str:
    """The text that `-d STAGE` shows."""
    from tracer.lang.printing.syntax import print_ast
    from tracer.lang.printing.typed import print_typed
    from tracer.lang.syntax.parser import parse

    if stage == "ast":
        return print_ast(parse(source, params))
    lowered, _ = plan(source, params, target, environment, given)
    if stage == "typed":
        return print_typed(lowered.program)
    if stage == "steps":
        from tracer.plan.dump import dump_steps

        return dump_steps(lowered)
    if stage == "plan":
        from tracer.plan.dump import dump as dump_plan

        return dump_plan(lowered)
    compiled = compile(lowered, forced, need_usable=False, activation=activation)
    if compiled.program is None:
        return "nothing to attach: runs in user space\n"
    return compiled.program.bytecode() if stage == "bytecode" else compiled.program.text()
