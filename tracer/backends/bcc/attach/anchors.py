"""Links that run nothing and place the breakpoints of others, where these no longer name a process's memory: see
`main_thread`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from tracer.backends.bcc.attach.main_thread import EXECED, MainThread
from tracer.errors import TracerError
from tracer.host.stat import ENDED, EXITING, facts_of, has_others
from tracer.kernel.bpf import NOTHING, link_uprobes, program_load
from tracer.kernel.workers.watcher import Gone, Watcher
from tracer.kinds.site import FileIdentity, FileSite, Spot
from tracer.plan.model import Plan
from tracer.plan.points import points
from tracer.resolve.files.identity import open_verified

SITES_A_LINK = 65536
"""Enough for most wildcards in one link: closing one with 57,000 sites takes 60 ms, closing four 220 ms (Linux 6.18).
"""

_NO_LINKS = "the kernel has no links for that (Linux 6.6)"


class Anchors:
    """The anchors of a session for one process. `missed` is what there is to say at the end of hits that
    were, or may have been, missed.
    """

    def __init__(self, pid: int, plan: Plan, watcher: Watcher, multi: bool, is_child: bool) -> None:
        """Looks from now on at what becomes of the main thread. `is_child`: the process may be stopped."""
        self._pid, self._plan, self._watcher, self._multi = pid, plan, watcher, multi
        self._links: list[tuple[int, int]] = []
        self._left_out: Collection[Spot] = ()
        self.missed: list[str] = []
        self._main: MainThread | None = None
        stops = is_child and multi
        if stops:
            watcher.undo_stop(pid)
        with suppress(OSError):  # without the right to use tracepoints
            self._main = MainThread(pid, stops)

    @property
    def wake(self) -> tuple[int, ...]:
        """Readable when `look` has something to do."""
        return () if self._main is None else (self._main.fd,)

    def attached(self, left_out: Collection[Spot], held: Collection[int]) -> None:
        """The probes are in place, but for those left out."""
        self._left_out = left_out
        facts = facts_of(self._pid)
        if facts is not None and facts.state in ENDED and has_others(self._pid):
            self._place(held, None)

    def look(self, held: Collection[int]) -> None:
        """Places anchors for the attach points that are `held`, if the main thread has ended or is another one now."""
        happened = self._main.take() if self._main is not None else ()
        if not happened or self._main is None:
            return
        try:
            facts = facts_of(self._pid)
            if facts is None:
                pass
            elif facts.state not in ENDED and not facts.flags & EXITING:
                self._place(held, self._pid)
            elif has_others(self._pid):
                self._place(held, None)
        finally:
            self._main.go_on()
        if EXECED in happened and not self._multi:
            self._say(self._unplaced(_NO_LINKS))
        elif EXECED in happened and not self._main.stops:
            self._say(
                f"a thread of process {self._pid} that was not its main one ran another program:"
                " what that did until its probes were set again was not seen"
            )

    def drop(self, points: Collection[int]) -> None:
        """Closes those of some attach points."""
        self._close([link for link in self._links if link[1] in points])
        self._links = [link for link in self._links if link[1] not in points]

    def close(self) -> None:
        """A second call does nothing."""
        self.look(())  # for what there is to say of it
        main, self._main = self._main, None
        if main is not None:
            main.close()
            if self._multi:
                self._watcher.forget()
        links, self._links = self._links, []
        self._close(links)

    def _place(self, held: Collection[int], pid: int | None) -> None:
        """Attaches where `pid`, or everybody, has its memory now: the links take the place of earlier ones."""
        fresh: list[tuple[int, int]] = []
        try:
            if not self._multi:
                raise OSError(0, _NO_LINKS)
            program = program_load(NOTHING, "tracer_anchor", multi=True)
            try:
                for number, point in enumerate(points(self._plan)):
                    if number in held:
                        fresh += [(link, number) for link in self._linked(point.places, program, pid)]
            finally:
                os.close(program)
        except (OSError, TracerError) as error:
            self._close(fresh)
            reason = error.strerror if isinstance(error, OSError) else error.message
            self._say(self._unplaced(reason or ""))
            if isinstance(error, Gone):
                raise
            return
        old, self._links = self._links, fresh
        self._close(old)

    def _unplaced(self, reason: str) -> str:
        return (
            f"the main thread of process {self._pid} has ended, and what the process loaded afterwards could not be"
            f" probed: {reason}"
        )

    def _linked(self, sites: Sequence[FileSite], program: int, pid: int | None) -> Iterator[int]:
        places: dict[tuple[str, FileIdentity], dict[int, int]] = {}
        for site in sites:
            if site.spot not in self._left_out:
                by_offset = places.setdefault((site.path, site.identity), {})
                by_offset[site.offset] = site.semaphore or by_offset.get(site.offset, 0)
        for (path, identity), semaphores in places.items():
            file = open_verified(path, identity)
            try:
                offsets = list(semaphores)
                for first in range(0, len(offsets), SITES_A_LINK):
                    part = offsets[first : first + SITES_A_LINK]
                    references = [semaphores[offset] for offset in part]
                    wanted = references if any(references) else None
                    yield self._watcher.open_one(link_uprobes(program, file, part, wanted, pid=pid, returns=False))
            finally:
                os.close(file)

    def _close(self, links: Sequence[tuple[int, int]]) -> None:
        self._watcher.close(link for link, _ in links)

    def _say(self, text: str) -> None:
        if text not in self.missed:
            self.missed.append(text)
