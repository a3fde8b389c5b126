"""Attach points → sites: from what the user wrote to places in files that are safe to probe.

The first stage that looks at the machine. Nothing here needs root or touches the kernel, and whatever it returns has
been checked by `safety` and `returns`.
"""

from __future__ import annotations

from tracer.errors import Diagnostic, ProgramError, TracerError
from tracer.lang.ast import AttachPoint, Program
from tracer.resolve import arch
from tracer.resolve.binary import Binaries, Binary, machine_name
from tracer.resolve.elf_layout import printable
from tracer.resolve.files import Found, find_files
from tracer.resolve.function_sites import function_sites
from tracer.resolve.functions import NothingThere
from tracer.resolve.line_sites import NoSuchLine, line_sites
from tracer.resolve.model import Site, Target
from tracer.resolve.usdt_sites import usdt_sites

MAX_FUNCTIONS = 5000
"""More functions than this under one attach point are taken for a slip of the pen (`uprobe:BIN:*`)."""


def expand(program: Program, target: Target, limit: int = MAX_FUNCTIONS) -> dict[int, tuple[Site, ...]]:
    """The sites of every clause, by its index; () for BEGIN, END and interval.

    Raises `ProgramError` with all faults.
    """
    faults: list[Diagnostic] = []
    result: dict[int, tuple[Site, ...]] = {}
    with Binaries() as binaries:
        for index, clause in enumerate(program.clauses):
            sites: dict[tuple[str, int, int, int, str], Site] = {}
            for point in clause.points:
                if point.kind not in ("usdt", "uprobe", "uretprobe"):
                    continue
                try:
                    found = sites_of(point, binaries, target, limit)
                except TracerError as error:
                    faults.append(Diagnostic(error.message, point.span, error.hint))
                    continue
                for site in found:
                    # Two patterns may mean one place; it is probed once.
                    key = (site.kind, site.identity.device, site.identity.inode, site.offset, site.probe)
                    sites.setdefault(key, site)
            result[index] = tuple(sites.values())
    if faults:
        raise ProgramError(program.source, faults)
    return result


def sites_of(point: AttachPoint, binaries: Binaries, target: Target, limit: int = MAX_FUNCTIONS) -> tuple[Site, ...]:
    """The sites of one attach point. Raises `TracerError` where there is none, or one that must not be probed."""
    found = find_files(point.path, target)
    sites: list[Site] = []
    failures: list[TracerError] = []
    seen: set[int] = set()
    for file in found:
        try:
            binary = _open(file, binaries)
        except TracerError as error:
            if file.sure:
                raise
            failures.append(error)  # a pattern of paths may well match what is no program
            continue
        if id(binary) in seen:
            continue
        seen.add(id(binary))
        try:
            if point.kind == "usdt":
                sites += usdt_sites(point, binary)
            elif point.source is not None:
                sites += line_sites(point, binary, limit - len(sites), limit)
            else:
                sites += function_sites(point, binary, limit - len(sites), limit)
        except NothingThere as error:
            failures.append(error)
    if not sites:
        if len(failures) > 1:
            # The one file that knows the source file says which lines have code.
            failures = [each for each in failures if isinstance(each, NoSuchLine)]
        raise failures[0] if failures else _nothing(point, len(found))
    return tuple(sites)


def _open(file: Found, binaries: Binaries) -> Binary:
    binary = binaries.open(file.path, file.shown)
    host = arch.host()
    if host is not None and binary.elf.machine != host.machine:
        raise binary.elf.error(f"made for {machine_name(binary.elf.machine)}, but this machine is {host.name}")
    if not file.sure:
        binary.elf.sections, binary.elf.segments  # noqa: B018 (damaged headers show when they are read)
    return binary


def _nothing(point: AttachPoint, files: int) -> TracerError:
    if point.source is not None:
        return TracerError(f"no code comes from '{printable(point.source)}' in any of {files} files")
    what = "USDT probe" if point.kind == "usdt" else "function"
    name = point.name or "*" if point.provider is None else f"{point.provider}:{point.name or '*'}"
    return TracerError(f"no {what} matches '{printable(name)}' in any of {files} files")
