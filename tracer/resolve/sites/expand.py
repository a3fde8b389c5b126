"""Attach points → sites: from what the user wrote to places in files that are safe to probe.

The first stage that looks at the machine. Nothing here needs root or touches the kernel, and whatever it returns has
been checked by `safety` and `returns`. What reads files is imported when there is one to read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from tracer.dataclass import dataclass, replace
from tracer.errors import (
    Diagnostic,
    NoFile,
    NoFileYet,
    NoSuchLine,
    NothingInFiles,
    NothingThere,
    ProgramError,
    TracerError,
    fail_alike,
)
from tracer.kinds.model import AttachPoint, Machine, SiteLimit
from tracer.kinds.registry import KINDS, alone, awaits_files, is_return
from tracer.kinds.site import FileSite, Site, Target
from tracer.lang.syntax.ast import Call, Clause, Name, Program
from tracer.lang.walk import walk, walk_program

if TYPE_CHECKING:
    from tracer.host.maps import Picture
    from tracer.resolve.binary import Binaries, Binary
    from tracer.resolve.files.paths import Found

_STACKS, _WILD = ("ustack", "dw_ustack"), set("*?[")

ENOUGH = 1 << 20
"""Sites that no program has."""


def expand(
    program: Program, target: Target, limit: int = ENOUGH, warnings: list[Diagnostic] | None = None, *,
    missing: str = "error", unsafe_returns: bool = False, inlined: bool = False, filtered: bool = False,
    later: bool = False, within: Callable[[AttachPoint], Sequence[Found]] | None = None, taken: int = 0,
    machine: Callable[[], Machine] | None = None,
) -> dict[int, tuple[Site, ...]]:
    """The sites of every clause, by its index: no more than `limit` altogether, with those that are `taken` already.
    `Site.point` is the place of the attach point in the clause.

    `warnings` gets what had to be left out of patterns, and with `missing` "warn" the attach points that mean nothing;
    then, as with "ignore", a clause may have no sites. `unsafe_returns`: see `returns.plan_return`. `inlined`: a name
    means inlined copies too. `filtered`: on this kernel return probes end programs with a seccomp filter. `later`: of
    attach points that await files, those without any mean nothing yet. `within`: only what these files add to an attach
    point is looked for. `machine` makes what knows the kernel's events. Raises `ProgramError` with all faults,
    `NoFileYet` where nothing but files that are awaited could have a site.
    """
    by_themselves = {
        index: alone(clause.points) if within is None else () for index, clause in enumerate(program.clauses)
    }
    fileless_count = sum(map(len, by_themselves.values()))
    site_limit = SiteLimit(limit, limit - fileless_count - taken)
    if site_limit.remaining < 0:
        what = f"{fileless_count} probes, more than max_probes ({limit})"
        points = [clause.points for clause in program.clauses]
        spans = [points[index][site.point].span for index, fileless in by_themselves.items() for site in fileless]
        hint = f"lift the limit: --max-probes {fileless_count}"
        raise ProgramError(program.source, [Diagnostic(what, spans[limit], hint)])
    if within is None and fileless_count == sum(len(clause.points) for clause in program.clauses):
        return by_themselves
    awaited: list[Diagnostic] = []
    faults: list[Diagnostic] = []
    absent: list[Diagnostic] = []
    # Else nobody asks for names that people can read.
    functions = any(isinstance(node, Name | Call) and node.name == "func" for node in walk_program(program))
    result: dict[int, tuple[FileSite, ...]] = {}
    everywhere: set[int] = set()
    meet = False
    with closing(_Files(functions, unsafe_returns, filtered, filtered or _walks_stacks(program), inlined)) as files:
        files.all = [point for clause in program.clauses for point in clause.points]
        for index, clause in enumerate(program.clauses):
            sites: list[FileSite] = []
            offsets: set[int] = set()
            for number, point in enumerate(clause.points):
                kind = KINDS[point.kind]
                if machine is not None and (kind.machine is not None or kind.watches is not None):
                    try:
                        events = [site.of_point(number) for site in _in_no_file(point, machine, files, target)]
                        site_limit.check(len(events), f"this means {len(events)} events")
                    except TracerError as error:
                        fault = Diagnostic(error.message, point.span, error.hint)
                        (absent if isinstance(error, NothingThere) else faults).append(fault)
                        continue
                    there = {site.spot for site in by_themselves[index]}
                    by_themselves[index] += tuple([site for site in events if site.spot not in there])
                    site_limit = site_limit.less(len(events))
                if KINDS[point.kind].sites is None:
                    continue
                files.given = None if within is None else within(point)
                if files.given == []:
                    continue
                left_out: list[str] = []
                try:
                    point_sites = sites_of(point, files, target, site_limit.less(len(sites)), left_out)
                except TracerError as error:
                    fault = Diagnostic(error.message, point.span, error.hint)
                    if later and awaits_files(point) and isinstance(error, NoFile):
                        awaited.append(fault)
                        continue
                    (absent if isinstance(error, NothingThere) else faults).append(fault)
                    continue
                if warnings is not None:
                    said = {warning.message for warning in warnings}
                    warnings += [
                        Diagnostic(text, point.span, None, "warning", lacking=True)
                        for text in left_out
                        if text not in said
                    ]
                if number:
                    point_sites = tuple([site.of_point(number) for site in point_sites])
                point_offsets = {site.offset for site in point_sites}
                meet = meet or len(point_offsets) < len(point_sites) or not everywhere.isdisjoint(point_offsets)
                everywhere |= point_offsets
                if len(point_offsets) == len(point_sites) and offsets.isdisjoint(point_offsets):
                    sites += point_sites
                else:
                    from tracer.resolve.sites.shared_places import each_once

                    sites = each_once([*sites, *point_sites])
                offsets |= point_offsets
            result[index] = tuple(sites)
            site_limit = site_limit.less(len(sites))
    if within is not None and not faults and not any(result.values()):
        raise NothingThere("nothing of it is there")
    if awaited and not faults and not absent and not any(result.values()):
        raise NoFileYet(program.source, awaited)
    if not fileless_count and not any(result.values()) and not any(by_themselves.values()):
        faults += absent  # nothing would be left
    elif missing == "error" and within is None:  # a file that comes later may have what one point means alone
        faults += [replace(fault, hint=_and_without(fault.hint)) for fault in absent]
    if faults and faults == absent and later:
        raise NothingInFiles(program.source, sorted(faults, key=lambda fault: fault.span.start))
    if faults:
        raise ProgramError(program.source, sorted(faults, key=lambda fault: fault.span.start))
    if meet:
        from tracer.resolve.sites.shared_places import joined, told_apart

        result = joined(result)
        if warnings is not None:
            warnings += told_apart(program.clauses, result)
    if warnings is not None and missing == "warn":
        warnings += [
            replace(fault, message=f"left out: {fault.message}", severity="warning", lacking=True) for fault in absent
        ]
    return {index: (*fileless, *result[index]) for index, fileless in by_themselves.items()}


def _in_no_file(point: AttachPoint, machine: Callable[[], Machine], files: _Files, target: Target) -> Sequence[Site]:
    """The sites that the machine has, or the memory of processes. Raises as `ProbeKind.machine`."""
    kind = KINDS[point.kind]
    if kind.watches is None:
        return [] if kind.machine is None else kind.machine(point, machine())
    from tracer.resolve.sites.watched_variables import Variables

    return [kind.watches(point, Variables(files.open, target))]


def _walks_stacks(program: Program) -> bool:
    """Whether a return probe could stand on a stack that the program asks for: another clause looks at stacks, or there
    are return probes of other functions. Or a clause asks at the return where the file is loaded, which only a probe
    in the function knows.
    """
    returning = [clause for clause in program.clauses if any(is_return(point) for point in clause.points)]
    if any(_asks_for(("uaddr",), clause) for clause in returning):
        return True
    returns = [point for clause in returning for point in clause.points if is_return(point)]
    looking = [clause for clause in program.clauses if _asks_for(_STACKS, clause)]
    if not returns or not looking:
        return False
    only = returns[0]
    several = len(returns) > 1 or only.cpp or bool(_WILD & {*(only.path or ""), *(only.name or "")})
    return several or any(only not in clause.points for clause in looking)


def _asks_for(names: tuple[str, ...], clause: Clause) -> bool:
    return any(
        isinstance(node, Name | Call) and node.name in names
        for part in (clause.predicate, *clause.body)
        if part is not None
        for node in walk(part)
    )


def _and_without(hint: str | None) -> str:
    """The remedy for an attach point that matches nothing, while others match."""
    remedy = "config = { missing_probes = warn } leaves it out"
    return remedy if hint is None else f"{hint} ({remedy})"


@dataclass(frozen=True, slots=True)
class _Searched:
    """See `kinds.model.SearchedFile`. `left_out` gets what is left out of patterns."""

    binary: Binary
    limit: SiteLimit
    left_out: list[str]
    processes: Sequence[Picture]
    all: Sequence[AttachPoint]

    def usdt_probes(self, point: AttachPoint) -> list[FileSite]:
        from tracer.resolve.sites.usdt_sites import usdt_sites

        return usdt_sites(point, self.binary, self.left_out)

    def functions(self, point: AttachPoint) -> list[FileSite]:
        from tracer.resolve.sites.function_sites import function_sites

        return function_sites(point, self.binary, self.limit, self.left_out, self.processes, self.all)

    def source_lines(self, point: AttachPoint) -> list[FileSite]:
        from tracer.resolve.sites.line_sites import line_sites

        return line_sites(point, self.binary, self.limit, self.left_out, self.processes)


def sites_at(point: AttachPoint, target: Target, left_out: list[str]) -> tuple[FileSite, ...]:
    """The sites of one attach point that is in no program; see `sites_of`."""
    with closing(_Files()) as files:
        files.all = [point]
        return sites_of(point, files, target, SiteLimit(ENOUGH, ENOUGH), left_out)


def sites_of(
    point: AttachPoint, files: _Files, target: Target, limit: SiteLimit, left_out: list[str], believe: bool = True
) -> tuple[FileSite, ...]:
    """The sites of one attach point. `left_out` gets a line for each file in which a pattern means more. Raises
    `TracerError` where there is no site, where one must not be probed, and where there are too many. `believe`: what an
    earlier run found is used.
    """
    from tracer.resolve.files.paths import find_files
    from tracer.resolve.sites.site_cache import keep, recall

    if files.given is None:
        point = as_meant(point, target)
        candidates = find_files(point.path, target)
    else:
        if point.apart is not None:
            point = replace(point, path=point.apart[0], source=point.apart[1], apart=None)
        candidates = tuple(files.given)
    find = KINDS[point.kind].sites
    assert find is not None
    sites: list[FileSite] = []
    failures: list[TracerError] = []
    seen: set[str] = set()
    for candidate in candidates:
        file = files.first(candidate)
        if file.path in seen:
            continue
        seen.add(file.path)
        switching = files.switching(file, target.pictures) if is_return(point) else None
        believe = believe and not files.inlined  # whose debug information is in files that nobody compares
        kept = recall(point, file, files.functions, files.walked) if believe and switching is None else None
        if kept is not None and len(kept) <= limit.remaining - len(sites):
            sites += kept
            continue
        from tracer.resolve.elf.structures import ElfError  # who knows the sites reads no file

        try:
            binary = files.open(file, switching)
        except TracerError as error:
            if file.sure:
                raise
            failures.append(error)  # a pattern of paths may well match what is no program
            continue
        before = len(left_out)
        try:
            of_file = find(point, _Searched(binary, limit.less(len(sites)), left_out, target.pictures, files.all))
            if binary.arch.word != 8:
                of_file = [replace(site, word=binary.arch.word) for site in of_file]
        except NothingThere as error:
            failures.append(error)
            if not file.sure:
                keep(point, binary, ())
            continue
        except ElfError as error:
            if file.sure:
                raise
            failures.append(error)
            left_out.append(f"left out: {error.message}")
            continue
        if len(left_out) == before:  # what is left out is to be said each time
            keep(point, binary, of_file)
        sites += of_file
    if not sites and believe and len(failures) < len(seen):
        return sites_of(point, files, target, limit, left_out, believe=False)  # why there is nothing is not kept
    if not sites:
        if len(failures) > 1 and not fail_alike(failures, len(seen)):
            # The one file that knows the source file says which lines have code.
            failures = [failure for failure in failures if isinstance(failure, NoSuchLine)]
        if failures:
            raise failures[0]
        from tracer.resolve.functions.absent import nothing

        raise nothing(point, candidates, lambda file: files.open(files.first(file)))
    limit.check(len(sites), f"this means {len(sites)} places")
    return tuple(sites)


def as_meant(point: AttachPoint, target: Target) -> AttachPoint:
    """The attach point, with its file and source file apart where no file is called as both together are. Raises
    `TracerError` where there is neither.
    """
    if point.apart is None:
        return point
    from tracer.resolve.files.paths import find_files

    path, source = point.apart
    try:
        find_files(point.path, target)
    except TracerError as error:
        with suppress(TracerError):
            find_files(path, target)
            return replace(point, path=path or None, source=source, apart=None)
        raise error from None
    return replace(point, apart=None)


class _Files:
    """The files of a program: each opened once, and only where its sites are not known from an earlier run."""

    def __init__(
        self, functions: bool = True, unsafe_returns: bool = False, filtered: bool = False, walked: bool = False,
        inlined: bool = False,
    ) -> None:
        self.functions = functions
        """Whether the program asks for `func`."""
        self.walked = walked
        self.all: Sequence[AttachPoint] = ()
        """The attach points of the program."""
        self.inlined = inlined
        self.given: Sequence[Found] | None = None
        """The files to search, where they are not looked for."""
        self._unsafe_returns = unsafe_returns
        self._filtered = filtered
        self._binaries: Binaries | None = None
        self._switching: dict[str, str | None] = {}
        self._first: dict[tuple[int, int], Found] = {}

    def first(self, file: Found) -> Found:
        """The file under the name by which it was first asked for."""
        try:
            status = os.stat(file.path)
        except (OSError, ValueError):
            return file  # opening it says why
        return replace(self._first.setdefault((status.st_dev, status.st_ino), file), sure=file.sure)

    def switching(self, file: Found, processes: Sequence[Picture]) -> str | None:
        """Says why return probes in the file may end a process though the file does not tell, or None."""
        from tracer.resolve.safety.plugins import FILTERED, switching_plugin

        if self._filtered:
            return FILTERED
        if file.path not in self._switching:
            self._switching[file.path] = switching_plugin(file.path, processes)
        return self._switching[file.path]

    def open(self, file: Found, switching: str | None = None) -> Binary:
        """The file, if its code can run here. Raises `ElfError`."""
        from tracer.kinds.arch import machine_name, native
        from tracer.resolve.binary import Binaries

        if self._binaries is None:
            self._binaries = Binaries()
        binary = self._binaries.open(file.path, file.shown)
        binary.shows_functions = self.functions
        binary.unsafe_returns = self._unsafe_returns
        binary.walked = self.walked
        if self.inlined:
            binary.inlined, binary.reproducible = True, False
        if switching is not None:
            binary.switching = switching
            binary.reproducible = False
        here = native()
        if here is not None and binary.elf.machine != here.machine and not binary.arch.runs_on(here):
            raise binary.elf.error(f"made for {machine_name(binary.elf.machine)}, but this machine is {here.name}")
        if not file.sure:
            binary.elf.sections, binary.elf.segments  # noqa: B018 (damaged headers show when they are read)
        return binary

    def close(self) -> None:
        """Closes them all."""
        if self._binaries is not None:
            self._binaries.close()
