"""Breakpoints that are not where they should be in the memory of traced processes: set again, or said why not."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable, Sequence

from tracer.errors import and_more
from tracer.host.file_users import listed, uses_of
from tracer.host.maps import Picture
from tracer.host.stat import facts_of, pids
from tracer.kernel.workers.set_again import ProcessPlace, set_again
from tracer.kinds.site import FileSite, Spot, Target, paths_of
from tracer.resolve.sites.in_memory import State, states

_FEW = 64
"""Sites, and processes of each, that are looked at."""
_NAMED = 3
_OVERLAYFS = 0x794C7630

MOVED = (
    "moved its code to memory of its own, where nothing can be probed (node --use-largepages and PHP's"
    " opcache.huge_code_pages do that): run it without"
)
COPIED = (
    "copied its code, with tracer's breakpoints in it, to memory of its own, where a breakpoint ends it (node"
    " --use-largepages and PHP's opcache.huge_code_pages do that): run it without"
)


class Breakpoints:
    """The breakpoints of one trace. `noted` is the last finding: the processes of each place, and what is so in them,
    or was before they ended.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.noted: dict[Spot, dict[int, State]] = {}
        self._names: dict[int, str] = {}
        self._tried: set[ProcessPlace] = set()
        self.suspects: set[ProcessPlace] = set()
        """Where a breakpoint was not there at the last look."""

    def set_again(self, sites: Iterable[FileSite], at_once: bool = False) -> list[tuple[str, str]]:
        """Notes what is so at some sites, and sets the breakpoints that are gone: those that were not there at the look
        before, either, unless `at_once`, since after an exec the kernel, or tracer, may be about to set them. Returns
        the sites and the processes where that was done, in words.
        """
        by_spot = {site.spot: site for site in [*sites][:_FEW]}
        wanted = [*by_spot.values()]
        every = [place for place in self.note(wanted) if place not in self._tried]
        lacking = [place for place in every if at_once or place in self.suspects]
        self.suspects = {*every} - {*lacking}
        for place in self.suspects:
            self._forget(place)
        self._tried.update(lacking)
        if not lacking:
            return []
        if not set_again(lacking):
            for place in {*lacking} - {*self.note(wanted)}:
                self._forget(place)  # it has ended or exec'ed
            return []
        done: dict[tuple[int, ...], list[str]] = {}
        still = self.note(wanted)
        self._tried -= {*lacking} - {*still}  # what was set may get lost again, and the others will not be had
        for spot in dict.fromkeys(map(_spot_of, lacking)):
            pids = tuple(place.pid for place in lacking if _spot_of(place) == spot and place not in still)
            if pids:
                done.setdefault(pids, []).append(by_spot[spot].probe)
                # One that has ended meanwhile is not seen again: it had its breakpoint to its end.
                self.noted[spot].update(dict.fromkeys(pids, "set"))
        return [(and_more(names[:_NAMED], len(names)), self._listed(pids)) for pids, names in done.items()]

    def _forget(self, place: ProcessPlace) -> None:
        self.noted.get(_spot_of(place), {}).pop(place.pid, None)

    def reason(self, sites: Iterable[FileSite]) -> str | None:
        """Why hits at some sites cannot be seen, by what was noted; None where they can."""
        for state in ("moved", "patched", "lacking"):
            for site in sites:
                noted = self.noted.get(site.spot, {})
                if pids := sorted(pid for pid, state_there in noted.items() if state_there == state):
                    return _words(state, self._listed(pids), len(pids) > 1, site)
        return None

    def _listed(self, pids: Sequence[int]) -> str:
        """The first by the name that it had when it was looked at, since it may have ended."""
        first = self._names.setdefault(pids[0], listed([pids[0]]))
        return first + (f" and {len(pids) - 1} more" if len(pids) > 1 else "")

    def note(self, sites: Sequence[FileSite]) -> list[ProcessPlace]:
        """Notes what is so at some sites in the processes that run their files; returns where a breakpoint is gone."""
        sites = sites[:_FEW]
        now = self._target.pictures_now()
        pictures = {picture.pid: picture for picture in now}
        uses = uses_of(paths_of(sites), now)
        users = {pid for site in sites for pid in uses[site.path].pids[:_FEW]}
        lacking = []
        for pid in sorted(users):
            for site, state in zip(sites, states(pictures.get(pid) or Picture(pid), sites), strict=True):
                if state is None:
                    continue
                self.noted.setdefault(site.spot, {})[pid] = state
                if state != "set":
                    self._listed([pid])
                if state == "lacking":
                    where = pid, site.path, *site.place
                    lacking.append(ProcessPlace(*where, site.semaphore or 0, site.is_return_probe))
        return lacking


def _words(state: str, who: str, several: bool, site: FileSite) -> str:
    has = "have" if several else "has"
    if state == "moved":
        return f"{who} {has} {MOVED.replace('its', 'their') if several else MOVED}"
    if state == "patched":
        return (
            f"{who} {has} written other code over the place, and so over the breakpoint, as XRay and live patching do:"
            " probe a function that it calls"
        )
    if _is_overlay(site.path):
        runs = "run" if several else "runs"
        path = os.readlink(site.path) if "/map_files/" in site.path else site.path
        return (
            f"{who} {runs} {path} as it was before the overlay file system made a copy of it to be written, and"
            " that copy is what is probed: programs started from now on run it"
        )
    return (
        f"the breakpoint is not in the memory of {who}: it gave the page back (MADV_DONTNEED), or the kernel did not"
        " set it"
    )


def _spot_of(place: ProcessPlace) -> Spot:
    return (*place[2:5], place.returns)


def copied_lately(paths: Iterable[str]) -> set[str]:
    """The files of an overlay that may be copies, and that a process which is older than the copy may not run."""
    overlaid = {path for path in paths if _is_overlay(path)}
    first = facts_of(min(pids(), default=0)) if overlaid else None
    if first is None:
        return overlaid
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - first.process.started / os.sysconf("SC_CLK_TCK")
    return {path for path in overlaid if _changed(path) >= time.time() - age}


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_ctime
    except OSError:
        return 0.0


def _is_overlay(path: str) -> bool:
    # struct statfs begins with the type, a long; Python's os.statvfs has none.
    buffer = ctypes.create_string_buffer(256)
    if ctypes.CDLL(None).statfs(os.fsencode(path), buffer):
        return False
    return ctypes.c_long.from_buffer(buffer).value == _OVERLAYFS
