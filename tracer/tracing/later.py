"""Files that processes map while a trace runs, and that a pattern of the program means: their sites are attached too.

The kernel's records tell of each mapping. To find the sites in a file, and to compile what runs there, is the work of a
thread; attaching is the trace's own. Hits before that are not seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from tracer.dataclass import NamedTuple, dataclass, replace
from tracer.errors import TracerError, printable
from tracer.host.maps import mapped_file, mappings, root
from tracer.host.named import name_of
from tracer.host.stat import pids
from tracer.kernel.mapping_records import Mapped, MappingRecords
from tracer.kinds.site import NoFile, NothingThere, files_of
from tracer.render.notices import Detail, Notice, Warned
from tracer.resolve.files.paths import Found
from tracer.resolve.sites.awaited import meets
from tracer.tracing.awaiting import points_of
from tracer.tracing.loop import probe_count

if TYPE_CHECKING:
    from tracer.host.leases import Leases
    from tracer.host.maps import Mapping
    from tracer.kinds.site import FileSite, Target
    from tracer.plan.model import Plan
    from tracer.tracing import Prepared
    from tracer.tracing.loop import Controls

_LOST = "the kernel told too much of what processes map: files that were mapped meanwhile may be missing"


@dataclass(frozen=True, slots=True)
class AttachedLater(Notice):
    """So many more probes are in place, in a file that a process has mapped meanwhile; its hits count after so many
    seconds.
    """

    probes: int
    path: str
    pid: int
    name: str
    seconds: float

    def __str__(self) -> str:
        more = "probe" if self.probes == 1 else "probes"
        return f"attached {self.probes} more {more} in {self.path}, mapped by {self.pid} ({self.name})"


class FileLeftOut(Warned):
    """A file that a process has mapped meanwhile, and that cannot be traced beside the others."""


class _Come(NamedTuple):
    """A file that has come: who mapped it, and when (CLOCK_MONOTONIC, nanoseconds)."""

    file: Found
    pid: int
    name: str
    at: int


class LaterFiles:
    """The files of one trace. `wake` is readable when `look` has something to do."""

    def __init__(
        self, prepared: Prepared, plan: Plan, target_pids: Sequence[int], session: Any, tell: Callable[[Notice], None],
        hold: Callable[[Sequence[FileSite]], None],
    ) -> None:  # fmt: skip
        """Records from now on what is mapped. `hold` takes leases on files. Raises `OSError`."""
        self._prepared = prepared
        self._plan = plan
        self._pids = frozenset(target_pids)
        self._follow = plan.follow
        self._session = session
        self._tell = tell
        self._hold = hold
        self._points = points_of(prepared)
        self._known = {(site.identity.device, site.identity.inode) for site in plan.places}
        self._seen: set[tuple[object, str]] = set()
        self._attached: list[Found] = []
        self._waiting: list[_Come] = []
        self._work: _Work | None = None
        self._done, self._rope = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._records = MappingRecords(target_pids, prompt=True)
        except OSError:
            self._close_pipe()
            raise

    @property
    def wake(self) -> tuple[int, ...]:
        return (*self._records.descriptors, self._done)

    def start(self) -> None:
        """Everything is attached: what was mapped since it was looked for has come, too."""
        for pid in self._pids or pids():
            with suppress(TracerError, OSError):
                for mapping in mappings(pid):
                    if mapping.executable:
                        self._note(pid, mapping, time.monotonic_ns())

    def look(self) -> None:
        """Takes note of what has come, and attaches what a thread has prepared."""
        if self._records.has_any:
            for record in self._records.take():
                if isinstance(record, Mapped):
                    if not self._pids or self._follow or record.pid in self._pids:
                        self._note(record.pid, record.mapping, record.at)
                elif hasattr(record, "count") and record.count:
                    self._tell(Warned(_LOST))
        work = self._work
        if work is not None and work.over:
            with suppress(BlockingIOError):
                os.read(self._done, 64)
            self._work = None
            self._attach(work)
        if self._work is None and self._waiting:
            come, self._waiting = self._waiting, []
            self._work = _Work(self._prepared, self._plan, self._session, come, self._rope)

    def unmet(self) -> Iterator[Notice]:
        """At the end: the attach points for which no file has come."""
        named = {clause.names[site.point] for clause in self._plan.program.clauses for site in clause.sites}
        for point in self._points:
            if point.text not in named and not any(meets(point, file) for file in self._attached):
                yield Warned(f"{point.text} was never hit: no process has mapped a file that it means")

    def close(self) -> None:
        """Looks no more; a second call does nothing."""
        if self._done >= 0:
            if self._work is not None:
                self._work.thread.join()
            self._records.close()
            self._close_pipe()

    def _close_pipe(self) -> None:
        os.close(self._done)
        os.close(self._rope)
        self._done = self._rope = -1

    def _note(self, pid: int, mapping: Mapping, at: int) -> None:
        """A process has mapped something: whether it is a file that is awaited, and not known yet."""
        if mapping.file is None or pid == os.getpid():
            return
        key = mapping.file, mapping.path
        if key in self._seen or not any(meets(point, Found(mapping.path, mapping.path)) for point in self._points):
            return
        self._seen.add(key)
        with suppress(TracerError, OSError):
            file = mapped_file(pid, mapping, root(pid))
            status = os.stat(file.path)
            if (status.st_dev, status.st_ino) in self._known:
                return
            self._known.add((status.st_dev, status.st_ino))
            self._waiting.append(_Come(Found(file.path, file.name, sure=False), pid, name_of(pid), at))

    def _attach(self, work: _Work) -> None:
        for come, prepared in work.found:
            what = f"{come.file.shown}, mapped by {come.pid} ({printable(come.name)})"
            try:
                if isinstance(prepared, Exception):
                    raise prepared
                plan, program = prepared
                self._hold(plan.places)
                self._session.attach_more(program)
            except (NothingThere, NoFile):
                continue
            except (TracerError, OSError) as error:
                reason = error.message if isinstance(error, TracerError) else error.strerror
                self._tell(FileLeftOut(f"left out: {what}: {reason}"))
                continue
            self._plan = _with(self._plan, plan)
            self._attached.append(come.file)
            seconds = (time.monotonic_ns() - come.at) / 1e9
            probes = probe_count(plan, self._session.left_out) - len(plan.user)
            self._tell(AttachedLater(probes, come.file.shown, come.pid, printable(come.name), seconds))
            self._tell(Detail(f"hits there are seen from {1000 * seconds:.0f} ms after it was mapped"))


class _Work:
    """The plans and programs of files that have come, made by a thread that writes to `rope` when it is `over`."""

    def __init__(self, prepared: Prepared, plan: Plan, session: Any, come: Sequence[_Come], rope: int) -> None:
        self.found: list[tuple[_Come, Any]] = []
        self.over = False
        self._of = prepared, plan, session, come, rope
        self.thread = Thread(target=self._run, name="tracer-files", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        prepared, plan, session, come, rope = self._of
        try:
            for each in come:
                try:
                    more = prepared.more(plan, [each.file])
                    self.found.append((each, (more, session.compile_more(more))))
                    plan = _with(plan, more)
                except Exception as error:
                    self.found.append((each, error))
        finally:
            self.over = True
            with suppress(OSError):
                os.write(rope, b"\0")


def _with(plan: Plan, more: Plan) -> Plan:
    """The plan with what more has been found."""
    return replace(plan, found=more.found)


def later_files(
    prepared: Prepared, target: Target, session: Any, tell: Callable[[Notice], None], leases: Leases | None,
    controls: Controls, stack: ExitStack,
) -> LaterFiles | None:  # fmt: skip
    """Those of a trace, looked at from now on; closed with the `stack`. None where that cannot be."""

    def hold(sites: Sequence[FileSite]) -> None:
        if leases is not None:
            leases.take(files_of(sites).values())

    try:
        found = LaterFiles(prepared, prepared.compiled.plan, target.pids, session, tell, hold)
    except OSError as error:
        tell(Warned(f"what processes map later is not traced (perf_event_open): {error.strerror}"))
        return None
    stack.callback(found.close)
    controls.wake = (*controls.wake, *found.wake)
    return found
