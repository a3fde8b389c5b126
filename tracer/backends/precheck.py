"""Finds the places of a plan that the kernel cannot or should not probe, before anything is attached.

The kernel looks at an instruction when a process has it in memory. If none has, a probe attaches without an error, and
a program that loads the file later (also that of `-c`) skips it silently. So one instruction of each doubtful kind is
tried: in the watcher, which survives a killed tracer, in memory that is mapped as code and is never executed. A trial
takes the kernel some 100 ms; several kinds are tried at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tracer.errors import Diagnostic, ProgramError
from tracer.kernel.trials.instructions import (
    DOUBTFUL,
    FINE_IN_32_BITS,
    NOT_PROBED,
    Stopped,
    codes_of,
    kind_of,
    may_go_without,
)
from tracer.kinds.site import Spot
from tracer.lang.typed import Config
from tracer.lang.walk import attach_points

if TYPE_CHECKING:
    from tracer.errors import Span
    from tracer.kernel.workers.watcher import Watcher
    from tracer.kinds.site import FileSite, Target
    from tracer.plan.model import Plan, ProbePlan
    from tracer.resolve.safety.disassembly import Instruction

MOST_ALONE = 256
"""Places with a perf event of their own."""

_APART = 16
"""Bytes that are looked at of each instruction."""


def unprobable(plan: Plan, watcher: Watcher, stop: Callable[[], bool]) -> dict[Spot, FileSite]:
    """The places of patterns that the kernel will not probe. Raises `ProgramError` for one that is named alone, or
    where a clause would have none left, and `Stopped` once `stop` says so.
    """
    if os.uname().machine != "x86_64":
        return {}  # what is doubtful there is not known; some of it comes out when it is attached
    sites = plan.places
    try:
        codes = codes_of(sites)
    except OSError:
        return {}  # a file that has gone: attaching says so
    kinds = {
        site.spot: kind
        for site, code in zip(sites, codes, strict=True)
        if code and code[0] in DOUBTFUL and (kind := kind_of(code)) and not _is_fine(site, code)
    }
    if not kinds:
        return {}
    if stop():
        raise Stopped
    examples = {kind_of(code): code for site, code in zip(sites, codes, strict=True) if site.spot in kinds}
    bad = _refused(examples, watcher)
    refused = {site.spot: site for site in sites if kinds.get(site.spot) in bad}
    for probe in plan.probes:
        places = [site for variant in probe.variants for site in variant.places]
        out = [site for site in places if site.spot in refused]
        alone = [site for site in out if len(out) == len(places) or not may_go_without(probe.clause, site.spot)]
        if alone:
            code = next(code for site, code in zip(sites, codes, strict=True) if site is alone[0])
            raise _refusal(plan, alone[0], code, _point(probe, alone[0], plan))
    return refused


def _is_fine(site: FileSite, code: bytes) -> bool:
    return site.word == 4 and code[0] in FINE_IN_32_BITS


def _point(probe: ProbePlan, site: FileSite, plan: Plan) -> Span:
    """The place in the user's text of a site's attach point."""
    spans = probe.clause.spans
    return spans[site.point] if site.point < len(spans) else attach_points(probe.clause, plan.program.source)


def _refused(examples: dict[bytes, bytes], watcher: Watcher) -> frozenset[bytes]:
    """The kinds, by an example of the code of each, that the kernel refuses."""
    # Loaded where there is something doubtful, which is seldom.
    from tracer.kernel.perf import uprobe_call
    from tracer.kernel.trials.scratch import code_file

    try:
        code = b"".join(code.ljust(_APART, b"\0") for code in examples.values())
        file, start = code_file(code)
    except OSError:
        return frozenset()  # it cannot be tried here
    try:
        places = range(start, start + len(code), _APART)
        answers = watcher.try_code(file, [uprobe_call(file, place, pid=watcher.pid) for place in places])
    except OSError:
        return frozenset()
    finally:
        os.close(file)
    return frozenset(kind for kind, answer in zip(examples, answers, strict=True) if -answer in NOT_PROBED)


def _refusal(plan: Plan, site: FileSite, code: bytes, span: Span) -> ProgramError:
    from tracer.kinds.arch import EM_386, EM_X86_64
    from tracer.resolve.safety.disassembly import decode

    instructions = decode(code, site.address, EM_X86_64 if site.word == 8 else EM_386)
    shown = code[: instructions[0].size if instructions else 8].hex(" ")
    message = f"{site.shown} cannot be probed: the kernel takes no probe on the instruction there ({shown})"
    later = None if site.is_return_probe else _later(instructions, code)
    place = "" if later is None else f"uprobe:{site.path}:{later:#x}, behind it, or "
    hint = f"probe {place}what calls it"
    return ProgramError(plan.program.source, [Diagnostic(message, span, hint)], exit_code=1)


def _later(instructions: Sequence[Instruction], code: bytes) -> int | None:
    """The address of the next instruction that the kernel surely takes, if all that come to the first come to it."""
    from tracer.resolve.safety.opcodes import is_misdecoded

    for before, following in pairwise(instructions):
        if before.jumps or not before.goes_on:
            break
        bytes_there = code[following.address - instructions[0].address :]
        if not kind_of(bytes_there) and not is_misdecoded(bytes_there):
            return following.address
    return None


def check_alone(plan: Plan, number: int) -> None:
    """Raises `ProgramError` where so many places are too many to take a perf event each.

    Closing one makes the kernel wait, one after the other, also when a process is killed: 12,000 took twenty minutes,
    in which nobody else could define a probe (Linux 6.18 without links and shared events).
    """
    if number <= MOST_ALONE or plan.program.config.max_probes != Config().max_probes:
        return
    probe = max(plan.probes, key=lambda candidate: sum(len(variant.places) for variant in candidate.variants))
    lacking = "no links for many (Linux 6.6), and no trace events for many (Linux 5.4) or they are out of reach"
    enough = 1 << number.bit_length()  # those that are left out of the pattern count too, where it is resolved
    remedy = f"narrow the pattern, or lift the limit: --max-probes {enough + (enough == Config().max_probes)}"
    raise too_many_alone(plan, probe, f"{number} places", lacking, remedy)


def too_many_alone(plan: Plan, probe: ProbePlan, places: str, lacking: str, remedy: str) -> ProgramError:
    """That so many `places` would take an event each, under the attach points of a probe; what the kernel has not."""
    message = (
        f"{places} would take a perf event each, which the kernel needs up to 0.1 s to close: it has {lacking}"
    )
    span = attach_points(probe.clause, plan.program.source)
    return ProgramError(plan.program.source, [Diagnostic(message, span, remedy)], exit_code=1)


def refuse_rewritten(plan: Plan) -> None:
    """Raises `ProgramError` under the attach points whose probes could harm the target on this kernel."""
    from tracer.kernel.trials.red_zone import spoils_red_zone

    spoiled = [
        (probe, site) for probe in plan.probes for variant in probe.variants for site in variant.places if site.red_zone
    ]
    if not spoiled or not spoils_red_zone():
        return
    probe, site = spoiled[0]
    message = (
        f"{site.shown} at {site.address:#x} is a five-byte nop, which this kernel turns into a call: that overwrites"
        " data that the function may keep below the stack pointer"
    )
    span = attach_points(probe.clause, plan.program.source)
    raise ProgramError(plan.program.source, [Diagnostic(message, span, "probe the function's start, or another place")])


def refuse_emulated(plan: Plan, target: Target) -> None:
    """Raises `ProgramError` under the attach points of a file that an emulator of the target reads."""
    from tracer.host.named import named
    from tracer.kinds.site import files_of
    from tracer.target.emulators import emulated

    emulator = emulated({inode: path for (_, inode), path in files_of(plan.places).items()}, target)
    if emulator is None:
        return
    if emulator.pid is None:
        who, remedy = f"the command is {emulator.emulator}", f"leave {emulator.emulator} out of -c"
    else:
        who = f"{named(emulator.pid)} is {emulator.emulator} and reads {emulator.path}"
        remedy = "trace another process alone with -p PID, or wait until that one has ended"
        if emulator.pid in target.fixed:
            remedy = "no probe is hit in it anyway" + ("; leave it out of -p" if len(target.pids) > 1 else "")
    message = f"{who}: it translates code together with breakpoints in it, which end its program with SIGTRAP"
    sites = {site.path: probe for probe in plan.probes for variant in probe.variants for site in variant.places}
    span = attach_points(sites[emulator.path].clause, plan.program.source)
    raise ProgramError(plan.program.source, [Diagnostic(message, span, remedy)], exit_code=1)
