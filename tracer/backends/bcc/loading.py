"""Programs into the kernel, such as may wait for a page of the traced process where the kernel has that."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tracer import cache
from tracer.backends.bcc.attach.loader import Loaded, create_maps, load_programs
from tracer.backends.bcc.compile.compiler import Bytecode, compile_text
from tracer.backends.bcc.host import mappings, pid_namespace, trials
from tracer.backends.bcc.host.refused import Refused, is_too_long, is_too_much, under_the_clause
from tracer.backends.bcc.program import BccProgram
from tracer.errors import TracerError

if TYPE_CHECKING:
    from tracer.backends.bcc.attach.older.page_groups import Groups

_KIND = "refused"
_QUICK = "programs do not wait for pages, and text on a page that is not in memory is counted as unreadable"


def loaded(
    program: BccProgram, multi: bool, shared: Loaded | None = None
) -> tuple[Loaded, BccProgram, tuple[str, ...]]:
    """The maps and programs, what they were made of, and what is worth saying about them. `shared` has the maps of a
    program at other sites, which this one is to use.

    Loops are tried in two ways: the kernel runs the rounds, or the verifier goes through each of them. Long ones begin
    with the first way, which a kernel may not have, or which needs more of BPF's stack than there is. Short ones begin
    with the second; there the verifier may give up. Raises `ProgramError` for what the first way tried came to.
    """
    if program.repeats and not trials.has("repeats"):
        program = BccProgram(program.plan, False, program.before)
    try:
        return _loaded(program, multi, shared)
    except Refused as error:
        if not program.repeats and not _can_repeat(error, program):
            raise under_the_clause(error, program.plan) from error
        first = error
    try:
        return _loaded(BccProgram(program.plan, not program.repeats, program.before), multi, shared)
    except Refused:
        raise under_the_clause(first, program.plan) from first


def _loaded(
    program: BccProgram, multi: bool, shared: Loaded | None
) -> tuple[Loaded, BccProgram, tuple[str, ...]]:
    by_place = None
    if not multi:
        from tracer.backends.bcc.attach.older.page_groups import groups

        by_place = groups(program.plan, program.generated)
    loaded = create_maps(program.generated, program.plan, by_place, shared)
    try:
        return loaded, program, _load_sleepable(loaded, program, multi, by_place)
    except BaseException:
        loaded.close()
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
    here = _here(program)

    def compiled(sleepable: bool) -> Bytecode:
        return _compiled(program, multi, by_place is not None, sleepable)

    def load(code: Bytecode, waiting: frozenset[str], explained: bool = True) -> None:
        load_programs(
            loaded, program.plan, program.generated, code, waiting, multi=multi, groups=by_place, here=here,
            explained=explained,
        )  # fmt: skip

    if waits and not trials.has("sleepable"):
        said = (f"{_QUICK}: the kernel has no sleepable uprobe programs (Linux 6.0)",)
    elif waits and not mappings.comes():
        said = (f"{_QUICK}: the kernel does not say which pages come (bpf_find_vma and BTF, Linux 5.17)",)
    elif waits:
        code = compiled(sleepable=True)
        key = _refusal(code)
        before = cache.load(_KIND, key)
        if before is None:
            try:
                load(code, waits, explained=program.loops and not program.repeats)  # else it is all the same why not
                return ()
            except Refused as error:
                if _can_repeat(error, program):
                    raise
                before = error.message.encode()
                loaded.unload()
                if is_too_long(error):
                    cache.store(_KIND, key, before)
        said = (f"{_QUICK}: {before.decode()}",)
    load(compiled(sleepable=False), frozenset())
    return said


def _refusal(compiled: Bytecode) -> str:
    """The name under which is kept that this kernel's verifier gave up on the programs: it takes seconds to do so, at
    each start anew (Linux 6.18: 2.7 s for `ustack(python)`).
    """
    kernel = os.uname()
    return cache.key_of(kernel.release, kernel.version, *(part for item in sorted(compiled.items()) for part in item))


def warm(program: BccProgram, multi: bool) -> None:
    """Compiles what `loaded` will ask for, which takes a tenth of a second or more: any thread can do that."""
    with suppress(TracerError):  # `loaded` says it
        may_wait = bool(program.generated.waits and trials.has("sleepable") and mappings.comes())
        _compiled(program, multi, not multi, may_wait)


def _compiled(program: BccProgram, multi: bool, by_place: bool, sleepable: bool) -> Bytecode:
    translated, programs = _translated(program), _programs(program)
    finds = (program.generated.places or programs) and not mappings.missing()
    return compile_text(
        program.text(), sleepable=sleepable, cookies=multi, by_place=by_place,
        kernel_reads=not program.copies or trials.has("kernel_reads"),
        namespaced=translated and bool(_here(program)),
        atomics=not program.generated.scratch_slots or trials.has("atomics"), programs=programs,
        mappings=finds, sequenced=finds and programs and pid_namespace.sequenced(),
    )  # fmt: skip


def _translated(program: BccProgram) -> bool:
    return program.asks_for_numbers and pid_namespace.translated()


def _programs(program: BccProgram) -> bool:
    return program.generated.unwinds and pid_namespace.untold() is None


def _here(program: BccProgram) -> Sequence[int]:
    wanted = _translated(program) or program.generated.tasks or _programs(program)
    return pid_namespace.words() if wanted else ()
