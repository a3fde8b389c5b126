"""Programs → sites: all of them or none."""

from __future__ import annotations

import errno
import os

from tracer.backends.bcc import syscall
from tracer.backends.bcc.codegen.site_text import SiteTexts
from tracer.errors import Diagnostic, ProgramError, TracerError
from tracer.plan.model import Plan, ProbePlan
from tracer.plan.walk import attach_points
from tracer.resolve.identity import open_verified
from tracer.resolve.model import FileIdentity, Site

_SITES_A_LINK = 16384


_Marked = tuple[Site, int]
"""A site, and the cookie by which its program knows it."""


class Attachments:
    """The links and events of a session."""

    def __init__(self, pid: int | None, multi: bool) -> None:
        self._pid = pid
        self._multi = multi
        self._descriptors: list[int] = []
        self._files: dict[tuple[str, FileIdentity], int] = {}

    def attach(self, plan: Plan, programs: dict[int, int], texts: SiteTexts) -> int:
        """Attaches every variant; returns the number of sites. On failure nothing is left attached.

        The last clause first: the kernel runs the consumers of a breakpoint in the reverse order of their registration
        (kernel/events/uprobes.c, consumer_add), and clauses at one site must run in the order of the program.
        """
        try:
            for site in plan.sites:
                file = site.path, site.identity
                if file not in self._files:
                    self._files[file] = open_verified(*file)
            for probe in reversed(plan.probes):
                for program, sites in reversed(_by_program(probe, programs, texts).items()):
                    try:
                        self._sites(program, sites)
                    except _Refused as error:
                        span = attach_points(probe.clause, plan.program.source)
                        diagnostic = Diagnostic(error.message, span, error.hint)
                        raise ProgramError(plan.program.source, [diagnostic], exit_code=error.exit_code) from error
        except BaseException:
            self.detach()
            raise
        finally:
            for descriptor in self._files.values():
                os.close(descriptor)
            self._files.clear()
        return len(plan.sites)

    def detach(self) -> None:
        """Closes links and events: no program runs afterwards."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _sites(self, program: int, marked: list[_Marked]) -> None:
        groups: dict[tuple[str, FileIdentity, bool], list[_Marked]] = {}
        for site, cookie in marked:
            groups.setdefault((site.path, site.identity, site.kind == "uretprobe"), []).append((site, cookie))
        for (name, identity, returns), sites in groups.items():
            # Not by its name, where another file may be by now.
            path = f"/proc/self/fd/{self._files[name, identity]}"
            if self._multi:
                self._link(program, path, sites, returns)
            else:
                for site, _ in sites:
                    self._event(program, path, site, returns)

    def _link(self, program: int, path: str, marked: list[_Marked], returns: bool) -> None:
        for first in range(0, len(marked), _SITES_A_LINK):
            part = [site for site, _ in marked[first : first + _SITES_A_LINK]]
            cookies = [cookie for _, cookie in marked[first : first + _SITES_A_LINK]]
            references = [site.semaphore or 0 for site in part]
            try:
                link = syscall.link_uprobes(
                    program,
                    os.fsencode(path),
                    [site.offset for site in part],
                    references if any(references) else None,
                    pid=self._pid,
                    returns=returns,
                    cookies=cookies if any(cookies) else None,
                )
            except OSError as error:
                raise _refused(error, part, self._pid) from error
            self._descriptors.append(link)

    def _event(self, program: int, path: str, site: Site, returns: bool) -> None:
        try:
            event = syscall.perf_uprobe(
                os.fsencode(path), site.offset, site.semaphore or 0, pid=self._pid, returns=returns
            )
            self._descriptors.append(event)
            syscall.perf_attach(event, program)
        except OSError as error:
            raise _refused(error, [site], self._pid) from error


def _by_program(probe: ProbePlan, programs: dict[int, int], texts: SiteTexts) -> dict[int, list[_Marked]]:
    """The sites of each program of a clause, which may serve many variants."""
    cookies = texts.cookies
    found: dict[int, list[_Marked]] = {}
    for variant in probe.variants:
        cookie = cookies.get(variant.id, 0)
        found.setdefault(programs[variant.id], []).extend((site, cookie) for site in variant.sites)
    return found


class _Refused(TracerError):
    """The kernel did not take a place; to be said under its attach point."""


def _refused(error: OSError, sites: list[Site], pid: int | None) -> TracerError:
    where = sites[0].probe + (f" and {len(sites) - 1} more sites" if len(sites) > 1 else "")
    if error.errno == errno.ESRCH:
        return TracerError(f"process {pid} has gone")
    if error.errno == errno.EMFILE:
        return _Refused(f"cannot attach to {where}: too many open files", "raise the limit: ulimit -n 65536")
    hints = {
        # One counter for each place (uprobes.c, "ref_ctr_offset mismatch").
        errno.EINVAL: "another tracer may hold this place with another semaphore, or without: end that one (see dmesg)",
        errno.ENOTSUP: "the instruction there cannot be probed: choose another place",
        _ENOTSUPP: "the instruction there cannot be probed: choose another place",
        errno.EPERM: "the kernel does not permit it (lockdown, a container without CAP_SYS_ADMIN)",
    }
    message = f"cannot attach to {where}: {_words(error.errno or 0)}"
    return _Refused(message, hints.get(error.errno or 0, "--backend ftrace attaches in another way"))


_ENOTSUPP = 524  # the kernel's own number


def _words(number: int) -> str:
    return "not supported" if number == _ENOTSUPP else os.strerror(number)
