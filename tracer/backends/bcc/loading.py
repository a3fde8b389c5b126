"""Programs into the kernel, such as may wait for a page of the traced process where the kernel has that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.backends.bcc.attach.loader import Loaded, create_maps, load_programs
from tracer.backends.bcc.compile.compiler import compile_text
from tracer.backends.bcc.host import mappings, pid_namespace, trials
from tracer.backends.bcc.host.refused import Refused, is_too_much, under_the_clause
from tracer.backends.bcc.program import BccProgram

if TYPE_CHECKING:
    from tracer.backends.bcc.attach.older.page_groups import Groups

_QUICK = "programs do not wait for pages, and text on a page that is not in memory is counted as unreadable"


def loaded(program: BccProgram, multi: bool) -> tuple[Loaded, BccProgram, tuple[str, ...]]:
    """The maps and programs, what they were made of, and what is worth saying about them.

    Loops are tried in two ways: the kernel runs the rounds, or the verifier goes through each of them. Long ones begin
    with the first way, which a kernel may not have, or which needs more of BPF's stack than there is. Short ones begin
    with the second; there the verifier may give up. Raises `ProgramError` for what the first way tried came to.
    """
    if program.repeats and not trials.has("repeats"):
        program = BccProgram(program.plan, repeats=False)
    try:
        return _loaded(program, multi)
    except Refused as error:
        if not program.repeats and not _can_repeat(error, program):
            raise under_the_clause(error, program.plan) from error
        first = error
    try:
        return _loaded(BccProgram(program.plan, repeats=not program.repeats), multi)
    except Refused:
        raise under_the_clause(first, program.plan) from first


def _loaded(program: BccProgram, multi: bool) -> tuple[Loaded, BccProgram, tuple[str, ...]]:
    by_place = None
    if not multi:
        from tracer.backends.bcc.attach.older.page_groups import groups

        by_place = groups(program.plan, program.generated)
    made = create_maps(program.generated, program.plan, by_place)
    try:
        return made, program, _load_sleepable(made, program, multi, by_place)
    except BaseException:
        made.close()
        raise


def _can_repeat(error: Refused, program: BccProgram) -> bool:
    return not program.repeats and is_too_much(error) and program.loops and trials.has("repeats")


def _load_sleepable(
    loaded: Loaded, program: BccProgram, multi: bool, by_place: Groups | None
) -> tuple[str, ...]:
    """Sleepable where the kernel takes it, else without waiting for pages: what is not in memory is counted then.
    Returns what is worth saying about it.
    """
    waits = program.generated.waits
    said: tuple[str, ...] = ()
    reads = not program.copies or trials.has("kernel_reads")
    atomics = not program.generated.scratch_slots or trials.has("atomics")
    translated = program.asks_for_numbers and pid_namespace.translated()
    programs = program.generated.unwinds and pid_namespace.untold() is None
    finds = (program.generated.places or programs) and not mappings.missing()
    here = pid_namespace.words() if translated or program.generated.tasks or programs else ()

    def load(sleepable: bool) -> None:
        compiled = compile_text(
            program.text(), sleepable=sleepable, cookies=multi, by_place=by_place is not None, kernel_reads=reads,
            namespaced=translated and bool(here), atomics=atomics, programs=programs,
            mappings=finds, sequenced=finds and programs and pid_namespace.sequenced(),
        )
        waiting = waits if sleepable else frozenset[str]()
        load_programs(
            loaded, program.plan, program.generated, compiled, waiting, multi=multi, groups=by_place, here=here
        )

    if waits and not trials.has("sleepable"):
        said = (f"{_QUICK}: the kernel has no sleepable uprobe programs (Linux 6.0)",)
    elif waits and not mappings.comes():
        said = (f"{_QUICK}: the kernel does not say which pages come (bpf_find_vma and BTF, Linux 5.17)",)
    elif waits:
        try:
            load(sleepable=True)
            return ()
        except Refused as error:
            if _can_repeat(error, program):
                raise
            said = (f"{_QUICK}: {error.message}",)
            loaded.unload()
    load(sleepable=False)
    return said
