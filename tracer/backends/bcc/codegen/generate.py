"""Plan → the C of the whole program.

#define …            which maps are which
struct control, struct scratch
#include "prelude.h"
int probe_0(struct pt_regs *ctx) …      one for each clause and places of its arguments
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from tracer.backends.bcc.codegen.arguments import REGISTERS
from tracer.backends.bcc.codegen.function import ROUNDS, CFunction, Context, Scratch, Shared
from tracer.backends.bcc.codegen.maps.steps import FIRST_TABLE
from tracer.backends.bcc.codegen.placement import lead
from tracer.backends.bcc.codegen.printer import declare_slots, run
from tracer.backends.bcc.codegen.sites import SITE_TEXTS, SiteTexts, noted_sites, site_texts
from tracer.backends.bcc.events.records import Record
from tracer.backends.bcc.maps.tables import Table, marks, tables
from tracer.dataclass import dataclass
from tracer.kinds.arch import X86_64, native
from tracer.kinds.site import SITE_VALUES, ArgSpec, Reg
from tracer.lang.aggregations.aggregation import COUNTER, TOTAL
from tracer.lang.types import operations
from tracer.plan.model import Plan, ProbePlan, Variant
from tracer.plan.points import first_numbers
from tracer.steps.model import Fetch, MapAdd, Steps, Update
from tracer.steps.rounds import NO_ROUNDS
from tracer.steps.values import Argument, UserStack
from tracer.steps.walk import walk

CONTROL, LOSSES, RING, SCRATCH = range(FIRST_TABLE)
FULL_MAPS = 32
"""Where in LOSSES, behind the causes and the endings of stacks, the counters of maps that were full begin, by number.
"""

FOLLOWED = 1001
"""The number of the map of followed processes: beyond those of any program's maps."""

STACK_RULES = 1004
"""The number of the map of what is known of addresses on stacks; see `stacks`."""

FOLLOW = "follow_new_task"
"""The function that keeps that map."""

PLACES = 1008
"""The number of the map of what lies at the addresses of symbols; see `places`."""

PYTHON_HOST, PYTHON_IMAGES, PYTHON_CODES = 1005, 1006, 1007
"""The numbers of the maps for the functions of Python; see `python`."""

_SCRATCH_BYTES = 4 << 20
_SLOTS = (64, 1024)
_SOON_READ = 128
"""Elements of an array that may be read ten times a second."""


@dataclass(frozen=True, slots=True)
class Generated:
    """The C, and what the loader must know of it.

    `functions` gives each variant's function by its id: variants whose arguments are in the same places share one.
    `site_texts` are the texts of `probe` and `func` of those that do. `waits` names the functions that read memory of
    the traced process, and so should be sleepable; `control` says how many generations, lengths, records, marks
    and noted sites the control block has; `marks` is the index there of each map that probes clear. `counted` are the
    attach points whose every hit a table counts, `noted` the numbers of the sites of those that have several.
    `follow`: probes test whether the process is one that is followed, and FOLLOW is the function that notes new ones.
    `threads`: they test that of threads too. `tasks`: it reads what the kernel keeps of processes; `places`: it asks
    what lies at an address.
    """

    text: str
    tables: dict[str, Table]
    records: tuple[Record, ...]
    functions: dict[int, str]
    site_texts: SiteTexts
    waits: frozenset[str]
    scratch_size: int
    scratch_slots: int
    control: tuple[int, int, int, int, int]
    marks: dict[str, int]
    follow: bool
    threads: bool
    counted: dict[int, Table]
    noted: dict[int, range]
    unwinds: bool
    tasks: bool
    interprets: bool
    places: bool


def generate(
    plan: Plan, repeats: bool = False, context_of: Callable[[Variant], Context] = lambda variant: REGISTERS,
    before: Generated | None = None,
) -> Generated:
    """The program for a plan: pure, and the same text for the same plan. `repeats`: the kernel runs its loops.
    `context_of`: what the function of a variant is given. `before`: the program of the same clauses at other sites,
    whose maps and control block this one uses.
    """
    groups = {probe.clause.id: _alike(probe) for probe in plan.probes}
    texts = [variant for alike in groups.values() for group in alike if len(group) > 1 for variant in group]
    maps = tables(plan, None if before is None else before.tables)
    shared = Shared(plan.program, maps, marks(plan), site_texts(texts, maps.values()))
    every = [step for probe in plan.probes for step in walk(plan.steps[probe.clause.id].body)]
    shared.repeats, shared.threads = repeats, plan.shared and plan.computes(operations.TRACED)
    # Where programs are probed too, these could have any address of the kernel read.
    leads = not plan.places and any(site.leads_to_kernel for site in plan.sites)
    shared.kernel = leads or plan.computes(operations.OF_KERNEL)
    wanted = any(isinstance(step, Fetch) and isinstance(step.source, UserStack) for step in every)
    if wanted and plan.program.config.stack_unwind != "fp" and native() is X86_64:
        shared.unwinds = True
        shared.records.append(Record("stack"))
    if any(step.source.interpreted for step in every if isinstance(step, Fetch) and isinstance(step.source, UserStack)):
        shared.interprets = True
        shared.records.append(Record("python"))
    functions: dict[int, str] = {}
    waits: set[str] = set()
    bodies: list[str] = []
    counted: dict[int, Table] = {}
    numbers = first_numbers(plan)
    noted = noted_sites(plan) if before is None else {}
    adding = Counter(step.map for step in every if isinstance(step, Update | MapAdd))
    for probe in plan.probes:
        steps, alike = plan.steps[probe.clause.id], groups[probe.clause.id]
        bodies_of = [_body(shared, steps, variants, context_of(variants[0])) for variants in alike]
        if not bodies_of:  # what it prints has its place among the records all the same
            _body(shared, steps, [_anywhere(steps)], REGISTERS)
        # Returns are counted for `nested_returns` too; those who are not followed have no hits in the map.
        returns = any(site.is_return_probe for variants in alike for site in variants[0].places[:1])
        alone = len(probe.clause.names) == 1 and not returns and not plan.shared
        table = _counting(steps, maps, adding, bodies_of) if alone and bodies_of else None
        if before is not None and numbers[probe.clause.id] not in before.counted:
            table = None
        if table is not None:
            counted[numbers[probe.clause.id]] = table
        first = numbers[probe.clause.id]
        notes = any(point in noted for point in range(first, first + len(probe.clause.names)))
        for function, variants in zip(bodies_of, alike, strict=True):
            name = f"probe_{variants[0].id}"
            bodies.append(_text(function, probe.clause.id, variants, name, table is not None, notes))
            functions.update((variant.id, name) for variant in variants)
            if function.reads_memory:
                waits.add(name)
    generations = sum(table.generation is not None for table in shared.tables.values())
    lengths = sum(table.length is not None for table in shared.tables.values())
    slots = scratch_slots(shared.scratch)
    control = (
        generations, lengths, len(shared.records), len(shared.marks),
        max((sites.stop for sites in noted.values()), default=0),
    )  # fmt: skip
    head = _head(shared, slots, control, plan)
    return Generated(
        "\n".join([head, *bodies]),
        shared.tables,
        tuple(shared.records),
        functions,
        shared.site_texts,
        frozenset(waits),
        shared.scratch.size(),
        slots,
        control,
        shared.marks,
        plan.shared,
        shared.threads,
        counted,
        noted,
        shared.unwinds,
        shared.tasks,
        shared.interprets,
        shared.places,
    )


def _anywhere(steps: Steps) -> Variant:
    """A variant of no site, for a clause that has none yet."""
    sources = [step.source for step in walk(steps.body) if isinstance(step, Fetch)]
    indices = {source.index for source in sources if isinstance(source, Argument)}
    told: dict[str, bytes | int] = {name: 0 if name == "line" else b"" for name in SITE_VALUES}
    return Variant(-1, {index: ArgSpec("", 8, False, Reg("sp")) for index in indices}, told, ())


def _counting(
    steps: Steps, tables: Mapping[str, Table], adding: Mapping[str, int], functions: list[CFunction]
) -> Table | None:
    """The table that one of a clause's steps adds to at every hit, and no other step of a probe: an array that is soon
    read. The overhead guard reads it, and the clause needs no second counter.
    """
    if any(function.leaves or function.unreadable or function.wants_slot for function in functions):
        return None
    for step in steps.body:
        if isinstance(step, Update | MapAdd) and adding[step.map] == 1:
            table = tables[step.map]
            counts = table.cell in (COUNTER, TOTAL)
            if counts and table.grid is not None and table.max_entries <= _SOON_READ:
                return table
    return None


def scratch_slots(scratch: Scratch) -> int:
    """The number of invocations that can hold a slot at once: a power of two."""
    if scratch.empty:
        return 0
    fewest, most = _SLOTS
    slots = most
    while slots > fewest and slots * scratch.size() > _SCRATCH_BYTES:
        slots //= 2
    return slots


def _head(shared: Shared, slots: int, control: tuple[int, int, int, int, int], plan: Plan) -> str:
    generations, lengths, records, marked, noted = control
    lines = [
        "#include <linux/types.h>",
        "#include <uapi/linux/ptrace.h>",
        "",
        f"#define LOSSES MAP({LOSSES})",
        f"#define RING MAP({RING})",
    ]
    if any(table.key is not None for table in shared.tables.values()):
        lines.append(f"#define FULL_MAPS {FULL_MAPS}")
    if slots:
        lines += [f"#define SCRATCH MAP({SCRATCH})", f"#define SCRATCH_SLOTS {slots}"]
    if shared.site_texts.words:
        lines.append(f"#define SITE_TEXTS MAP({SITE_TEXTS})")
    if shared.unwinds:
        lines.append(f"#define RULES MAP({STACK_RULES})")
        lines.append(f"#define STACK_RECORD {shared.records.index(Record('stack'))}")
    if shared.interprets:
        lines += [
            f"#define PYTHON_HOST MAP({PYTHON_HOST})", f"#define PYTHON_IMAGES MAP({PYTHON_IMAGES})",
            f"#define PYTHON_CODES MAP({PYTHON_CODES})",
        ]  # fmt: skip
        lines.append(f"#define PYTHON_RECORD {shared.records.index(Record('python'))}")
    if plan.shared:
        lines.append(f"#define FOLLOWED MAP({FOLLOWED})")
        lines += [] if plan.follow else ["#define FIXED_SET 1"]
        lines += ["#define THREADS 1"] if shared.threads else []
    for table in shared.tables.values():
        short, *longer = (f"MAP({FIRST_TABLE + number})" for number in table.numbers)
        maps = short + (f" and, for longer keys, {' and '.join(longer)}" if longer else "")
        lines.append(f"/* {maps} hold{'' if longer else 's'} {_for_comment(table.describe())} */")
    lines += ["", "struct control {", "\tu64 exiting, hit, cpid, started, wakeup;"]
    if generations:
        lines.append(f"\tu64 generation[{generations}];")
    if lengths:
        lines.append(f"\tu64 made[{lengths}], given[{lengths}];")
    if records:
        lines.append(f"\tu64 pending[{records}];")
    if marked:
        lines.append(f"\tu64 mark[{marked}];")
    if noted:
        lines.append(f"\tu8 noted[{noted}];")
    lines += ["};", ""]
    if slots:
        lines += ["struct scratch {", *(f"\t{member}" for member in shared.scratch.members()), "};", ""]
    fixed = '#include "prelude.h"'
    lines += ["#define OF_KERNEL_TOO 1"] if shared.kernel else []
    lines += ["#define TASKS 1", fixed, '#include "tasks.h"'] if shared.tasks else [fixed]
    lines += [f"#define PLACES MAP({PLACES})"] if shared.places else []
    lines += ['#include "places.h"'] if shared.places or shared.unwinds else []
    lines += [*(_stacks(shared) if shared.unwinds else [])]
    lines += [*(['#include "python.h"'] if shared.interprets else []), ""]
    if plan.shared:
        lines += [f"int {FOLLOW}(struct new_task *task)", "{", "\treturn note_new_task(task);", "}", ""]
    return "\n".join(lines)


def _stacks(shared: Shared) -> list[str]:
    """The C that walks stacks, with the size of the copy if the program sets one."""
    copied = shared.program.config.stack_copy
    return [*([f"#define STACK_PIECES {copied // 512}"] if copied else []), '#include "stacks.h"']


def _for_comment(text: str) -> str:
    """A map's name is an identifier, but what stands in a comment must not depend on that."""
    return "".join(char if (char.isalnum() and char.isascii()) or char in "@_:, " else "?" for char in text)


def _alike(probe: ProbePlan) -> list[list[Variant]]:
    """The variants that differ in nothing but the names of their sites: compiling a function takes libbcc 0.1 s, and a
    wildcard with `probe` in its body would need hundreds.
    """
    groups: dict[object, list[Variant]] = {}
    by_args: dict[int, list[Variant]] = {}
    for variant in probe.variants:
        group = by_args.get(id(variant.args))
        if group is None:
            layout = tuple((index, spec.size, spec.signed, spec.operand) for index, spec in variant.args.items())
            group = by_args[id(variant.args)] = groups.setdefault(layout, [])
        group.append(variant)
    return list(groups.values())


def _body(shared: Shared, steps: Steps, variants: list[Variant], context: Context) -> CFunction:
    """The steps as lines of a function."""
    many = len(variants) > 1 and variants[0].id in shared.site_texts.words
    function = CFunction(shared, steps, variants[0], many, context)
    first = lead(steps.body)
    declare_slots(function, steps.body[:first])
    run(function, steps.body[:first])
    # The scratch slot is taken as late as possible, since most hits may end at the predicate.
    early = _take(context.result) if function.wants_slot else []
    predicate, function.lines = function.lines, []
    declare_slots(function, steps.body[first:])
    run(function, steps.body[first:])
    late = _take(context.result) if function.wants_slot and not early else []
    function.lines = [*early, *predicate, *late, *function.lines]
    return function


def _text(
    function: CFunction, clause: int, variants: list[Variant], name: str, uncounted: bool, notes: bool
) -> str:
    sites = sum(len(variant.sites) for variant in variants)
    lines = [
        *function.callbacks,
        f"/* clause {clause}, {sites} site{'' if sites == 1 else 's'} */",
        f"int {name}(struct {function.context.struct} *ctx)",
        "{",
        f"\tstruct control *control = {_enter(function, variants, uncounted)}();",
        *(["\tstruct scratch *scratch = NULL;"] if function.wants_slot else []),
        *(["\tconst u64 *site = site_texts(ctx);"] if function.many else []),
        *(f"\t{declaration}" for declaration in function.declarations),
        "",
        # The pointer itself is tested: clang had merged the test with `exiting`, from which the verifier of Linux 6.1
        # does not infer that it is not NULL.
        *(["\tOPAQUE(control);"] if function.many else []),
        "\tif (!control || !site)" if function.many else "\tif (!control)",
        f"\t\treturn {function.context.result:d};",
        *(["\tNOTE_SITE(control, ctx);"] if notes else []),
        *function.lines,
        *(["done:"] if function.leaves or function.unreadable else []),
        *([f"\tif ({ROUNDS} >= {NO_ROUNDS})", "\t\tlose(LOST_LOOPS);"] if ROUNDS in function.variables else []),
        *(["\tif (scratch)", "\t\tscratch_give(scratch);"] if function.wants_slot else []),
        f"\treturn {function.context.result:d};",
        *(["unreadable:", "\tlose(LOST_UNREADABLE);", "\tgoto done;"] if function.unreadable else []),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _enter(function: CFunction, variants: list[Variant], uncounted: bool) -> str:
    """The function of the prelude that says whether the hit counts at all."""
    if function.shared.threads and any(site.others for variant in variants for site in variant.sites[:1]):
        return "enter_for_all"
    return "enter_uncounted" if uncounted else "enter"


def _take(result: int) -> list[str]:
    return [
        "\tscratch = scratch_take();", "\tif (!scratch) {", "\t\tlose(LOST_BUSY);", f"\t\treturn {result:d};", "\t}",
    ]  # fmt: skip
