"""Why an attach point was never hit, as far as files and processes tell, in words."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING

from tracer.errors import TracerError, and_more
from tracer.host.file_users import Other, Uses, listed, uses_of
from tracer.kinds.registry import kind_of
from tracer.kinds.site import Spot, paths_of
from tracer.resolve.binary import Binaries

if TYPE_CHECKING:
    from tracer.kinds.site import FileSite, Target
    from tracer.plan.points import Point
    from tracer.resolve.elf.file import Elf
    from tracer.resolve.elf.symbols import Symbols
    from tracer.silence.breakpoints import Breakpoints
    from tracer.silence.history import History

_FEW = 16
"""Sites of an attach point up to which each is looked at by itself."""

_COPIES = 3
"""How many copies of a function are named."""

_LONGEST_S = 1.0
"""How long to look for what the places of a wildcard are."""

Values = Mapping[Spot, Sequence[tuple[int, Sequence[int]]]]
"""What semaphores said while attached: of each site, the processes and what was read there."""


def semaphore_values(every: Iterable[FileSite], target: Target) -> dict[Spot, list[tuple[int, list[int]]]]:
    """The values of some sites' semaphores in the processes that run the file."""
    from tracer.kernel.workers.semaphores import Semaphore, values_of

    sites = [site for site in every if site.semaphore_address is not None][:_FEW]
    uses = uses_of(paths_of(sites), target.pictures_now())
    values: dict[Spot, list[tuple[int, list[int]]]] = {}
    for site in sites:
        file, address = site.identity, site.semaphore_address
        offset = site.guard
        if offset is None or address is None:
            continue
        semaphore = Semaphore(file.device, file.inode, offset, address, site.offset, site.address)
        values[site.spot] = [(pid, values_of(pid, semaphore)) for pid in uses[site.path].pids[:_FEW]]
    return values


class Reasons:
    """The reasons for one trace, as it is now. `refused` are the sites that the kernel does not probe, `values` what
    semaphores said while they were attached, `breakpoints` what became of these, and `history` what the processes
    that are traced have mapped.
    """

    def __init__(
        self, points: Sequence[Point], target: Target, refused: Collection[FileSite], values: Values,
        breakpoints: Breakpoints | None = None, history: History | None = None, unraised: bool = False,
    ) -> None:  # fmt: skip
        self._points = points
        self._target = target
        self._refused = {site.spot for site in refused}
        self._values = values
        self._breakpoints = breakpoints
        self._history = history
        self._unraised = unraised

    def of(self, number: int) -> str:
        """Why an attach point was silent."""
        point = self._points[number]
        if self._refused and all(site.spot in self._refused for site in point.places):
            return "the kernel cannot probe the instruction there"
        return self.of_processes(number) or self._of_code(point) or self._not_called(point)

    def of_processes(self, number: int) -> str | None:
        """The reason that processes tell, as long as they are as they are: nobody runs the file, or all pass the probe
        by.
        """
        point = self._points[number]
        return self.unseen(point.places) or self._elsewhere(point.places) or self._of_semaphores(point.places)

    def unseen(self, sites: Sequence[FileSite]) -> str | None:
        """Why hits there cannot be seen: other code stands there in the process, or stood there at its end."""
        if self._breakpoints is not None and (reason := self._breakpoints.reason(sites)):
            return reason
        if self._history is None or not self._ended:
            return None
        if self._history.moved(sites):
            from tracer.silence.breakpoints import MOVED

            return f"one of {self._name} {MOVED}" if self._are_several else f"{self._name} {MOVED}"
        return None

    def known_of(
        self, number: int, unhit: Sequence[FileSite], all: bool
    ) -> tuple[list[FileSite], dict[str, list[FileSite]]]:
        """The sites of an attach point that were not hit where others were: those that may just not have been called,
        and the others by the reason. Without `all` one that somebody may have got round is none of these.
        """
        unknown: list[FileSite] = []
        by_reason: dict[str, list[FileSite]] = {}
        silent = {site.spot for site in unhit}
        point = self._points[number]
        hit = paths_of(site for site in point.places if site.spot not in silent)
        until = time.monotonic() + _LONGEST_S
        with closing(Binaries()) as binaries:
            for site in unhit:
                reason = self.unseen([site]) or (None if site.path in hit else self._elsewhere([site]))
                reason = reason or self._of_semaphores([site])
                if reason is None and not kind_of(site).has_notes and time.monotonic() < until:
                    reason = _code_at(site, binaries, point.places, all)
                (unknown if reason is None else by_reason.setdefault(reason, [])).append(site)
        return unknown, by_reason

    def _of_semaphores(self, sites: Sequence[FileSite]) -> str | None:
        by_process: dict[int, list[int]] = {}
        for site in sites:
            for pid, read in self._values.get(site.spot, ()):
                by_process.setdefault(pid, []).extend(read)
        low = sorted(pid for pid, read in by_process.items() if read and not any(read))
        if not low and self._unraised and all(site.guard is not None for site in sites):
            return (
                "its semaphore was raised nowhere: tracer raises it in programs that run when the trace begins, and in"
                " the first that -c runs"
            )
        return f"its semaphore reads 0 in {listed(low)}, which therefore skips the probe" if low else None

    # --- who runs the file ---

    @cached_property
    def _uses(self) -> dict[str, Uses]:
        paths = paths_of(site for point in self._points for site in point.places)
        return uses_of(paths, self._target.pictures_now())

    @property
    def _ended(self) -> bool:
        from tracer.host.stat import directory

        fixed = self._target.fixed
        return bool(fixed) and not any(os.path.exists(f"{directory(pid)}/exe") for pid in fixed)

    @property
    def _are_several(self) -> bool:
        return len(self._target.fixed) > 1

    @property
    def _name(self) -> str:
        """The name of the program that the one traced process, which has ended, ran last; its first program as the user
        named it.
        """
        if self._are_several:
            return f"the {len(self._target.pids)} processes"
        ran, named = self._history.program if self._history is not None else "", self._target.program or ""
        return os.path.basename(named if os.path.realpath(named) == ran else ran or named) or "the process"

    def _elsewhere(self, sites: Sequence[FileSite]) -> str | None:
        """The reason that nobody runs the files of some sites; None where somebody does, or did."""
        target, paths = self._target, sorted(paths_of(sites))
        if target.program is not None and not target.follow:
            absent = self._history is not None and not self._history.loaded(paths)
            if absent and self._history is not None:
                from tracer.silence.other_libc import other_libc

                if (other := other_libc(self._name, self._history.paths, sites[0])) is not None:
                    return other
            came_to_use = self._history is not None and self._history.saw(paths)
            if not came_to_use and (others := _not_its_own(target.program, paths)):
                name = os.path.basename(target.program)
                return f"{name} itself does not use {others}; --follow traces what it starts, too"
            if absent and self._ended:
                return f"{self._name} never loaded {', '.join(paths)}"
        if self._ended or any(self._uses[path].pids for path in paths):
            return None
        for path in paths:
            if not os.path.exists(path):
                return f"{path} is no longer there"
            if replaced := self._uses[path].others:
                return _another(path, replaced)
        shown = ", ".join(paths)
        if not target.fixed:
            return f"no process that runs now has loaded {shown}"
        return f"{listed(target.fixed)} {'has' if len(target.fixed) == 1 else 'have'} not loaded {shown}"

    def _not_called(self, point: Point) -> str:
        paths = sorted(paths_of(point.places))
        did_not = "did not call it" if all(_is_entry(site) for site in point.places) else "did not run the code there"
        if len(point.places) > 1:
            did_not = "did not run the code there"
        if self._ended:
            ended = "have ended" if self._are_several else "has ended"
            if self._history is not None and self._history.rewrote(point.places):
                its = "one made its" if self._are_several else "it made its"
                return f"{self._name} {did_not}, or wrote other code over it ({its} code writable), and {ended}"
            return f"{self._name} {did_not}, and {ended}"
        users = sorted({pid for path in paths for pid in self._uses[path].pids})
        names = ", ".join(paths) if len(paths) == 1 else f"{len(paths)} files"
        verb = "has" if len(users) == 1 else "have"
        return f"{listed(users)} {verb} loaded {names}, but {did_not}" if users else did_not

    # --- what the code is ---

    def _of_code(self, point: Point) -> str | None:
        """The reason that lies in the code at a place, if hits there are not to be expected."""
        from tracer.resolve.binary import Binaries

        sites = [site for site in point.places if not kind_of(site).has_notes]
        if len(sites) > _FEW:
            return None
        said: list[str] = []
        with closing(Binaries()) as binaries:
            for site in sites:
                text = _code_at(site, binaries, sites)
                if text is not None and text not in said:
                    said.append(text)
        return "; ".join(said) or None


def _another(path: str, others: Sequence[Other]) -> str:
    first = others[0]
    verb = "runs" if len(others) == 1 else "run"
    who = f"{listed([other.pid for other in others])} {verb}"
    if first.root:
        return f"{who} another file of that name, in a container or behind chroot, not {path}: -p PID probes that one"
    since = "which has been replaced since" if first.deleted else "which lies elsewhere by now"
    remedy = "programs started now run this one" + (", and -p PID probes the other" if first.deleted else "")
    return f"{who} another {os.path.basename(path)}, {since}, not {path}: {remedy}"


def _is_entry(site: FileSite) -> bool:
    return _in_function(site) and "+" not in site.probe.rpartition(":")[2]


def _in_function(site: FileSite) -> bool:
    """Whether the kernel's probe is where a function begins, or at a place named by one."""
    return not site.is_at_return and not kind_of(site).has_notes


def _code_at(
    site: FileSite, binaries: Binaries, every: Sequence[FileSite], choices: bool = True
) -> str | None:
    """The reason that lies in the code at a site, one of `every` of its attach point."""
    try:
        return _kind_of_code(site, binaries, every, choices)
    except TracerError:
        return None


def _kind_of_code(
    site: FileSite, binaries: Binaries, every: Sequence[FileSite], choices: bool
) -> str | None:
    from tracer.resolve.elf.plt import in_plt
    from tracer.resolve.functions.inlining import COUNTED, at_places, inlined_of

    binary = binaries.open(site.path)
    if in_plt(binary.elf, site.address):
        return (
            f"{site.address:#x} is a PLT entry: only the calls of {site.path} itself into another"
            " library pass through it"
        )
    name = site.probe.rpartition(":")[2].partition("+")[0]
    for function in binary.symbols.named(name) if _in_function(site) and name else ():
        if function.ifunc and choices:
            held = binary.symbols.function_at(site.address)
            chosen = f"{held.name}, " if held is not None and held.address == site.address else ""
            return (
                f"{name} is an indirect function (ifunc), and {chosen}what its resolver chooses here, is probed: no"
                " process came by there, though one that chose another may have called it"
            )
    for symbol in binary.symbols.functions:
        if symbol.ifunc and symbol.address == site.address:
            what = f"it is the resolver of {symbol.name}, an indirect function (ifunc)"
            return f"{what}: that runs when the file is loaded"
    if not _is_entry(site) or any(other.copy for other in every):
        return None
    if copies := _copies(binary.symbols, site.address):
        shown = and_more(copies[:_COPIES], len(copies))
        return f"the compiler made {shown} of {name}, which is called instead: name that"
    inlined = inlined_of(site.path, site.address) if _has_debug_information_here(binary.elf) else None
    if inlined is None:
        return None
    remedy = f"; {COUNTED}" if kind_of(site).enters else ""
    return f"{name} was inlined {at_places(inlined)}, and its own code was not called{remedy}"


def _copies(symbols: Symbols, address: int) -> list[str]:
    """The copies of the function that begins there, under any of its names."""
    names = {function.name for function in symbols.functions if function.address == address}
    return [copy.name for name in sorted(names) for copy in symbols.copies(name) if copy.address != address]


def _has_debug_information_here(elf: Elf) -> bool:
    """Whether this machine has debug information of the file. Where a server would be asked, nobody waits for that."""
    from tracer.resolve.elf.debug_file import debug_paths

    return elf.section(".debug_info") is not None or any(os.path.exists(path) for path in debug_paths(elf))


def _not_its_own(program: str, paths: Collection[str]) -> str:
    """The files, if all are neither the program of `-c`, nor what runs it, nor one of their libraries: then it may be
    what the program starts that uses them. "" else.
    """
    from tracer.resolve.files.loaded import loaded_files

    try:
        files = loaded_files(program)
        others = [path for path in paths if not any(os.path.samefile(path, file) for file in files)]
    except (OSError, TracerError):
        return ""
    return ", ".join(others) if len(others) == len(paths) else ""
