"""Files that processes map while a trace runs, and that a pattern of the program means: their sites are attached too.

The kernel's records tell of each mapping. To find the sites in a file, and to compile what runs there, is the work of a
thread; attaching is the trace's own. Hits before that are not seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from tracer.dataclass import NamedTuple, dataclass, replace
from tracer.errors import NoFile, NothingThere, TracerError, printable
from tracer.host.maps import mapped_file, mappings, root
from tracer.host.named import name_of
from tracer.host.stat import pids
from tracer.kernel.mapping_records import Mapped, MappingRecords
from tracer.kinds.site import files_of
from tracer.plan.points import first_numbers
from tracer.render.notices import Detail, Notice, Warned
from tracer.resolve.files.awaited import meets
from tracer.resolve.files.paths import Found
from tracer.tracing.awaiting import points_of
from tracer.tracing.loop import probe_count

if TYPE_CHECKING:
    from tracer.host.leases import Leases
    from tracer.host.maps import Mapping
    from tracer.kinds.site import FileSite, Target
    from tracer.plan.model import Plan
    from tracer.tracing import Prepared
    from tracer.tracing.loop import Controls

_NOT_MAPPED = "no process has mapped a file that it means"
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
    moment: int


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
        self._identities = {(site.identity.device, site.identity.inode) for site in plan.places}
        self._seen: set[tuple[object, str]] = set()
        self._told: list[Found] = []
        self._lacking: list[Found] = []
        self._waiting: list[_Come] = []
        self._awaited: list[tuple[int, Mapping]] = []
        self._planned: tuple[_Come, tuple[Plan, Any] | Exception] | None = None
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
        """Notes that everything is attached: what was mapped since it was looked for has come, too."""
        self._work = _Work(self._find, self._rope)

    def look(self) -> None:
        """Takes note of what has come, and attaches what a thread has prepared."""
        if self._records.has_any:
            for record in self._records.take():
                if isinstance(record, Mapped):
                    if not self._pids or self._follow or record.pid in self._pids:
                        self._note(record.pid, record.mapping, record.at_ns)
                elif hasattr(record, "count") and record.count:
                    self._tell(Warned(_LOST))
        work = self._work
        if work is not None and work.over:
            work.thread.join()  # it has written by then
            with suppress(BlockingIOError):
                os.read(self._done, 64)
            self._work = None
            awaited, self._awaited = self._awaited, []
            for pid, mapping in awaited:
                self._note(pid, mapping, time.monotonic_ns())
            planned, self._planned = self._planned, None
            if planned is not None:
                self._attach(*planned)
        if self._work is None and self._waiting:
            # One by one: the next goes on from what this one has added to the session.
            self._work = _Work(partial(self._prepare, self._waiting.pop(0)), self._rope)

    def unmet(self) -> Iterator[Notice]:
        """The warnings at the end about attach points for which no file has come."""
        named = {clause.names[site.point] for clause in self._plan.program.clauses for site in clause.sites}
        for point in self._points:
            if point.text not in named and not any(meets(point, file) for file in self._told):
                lacking = next((file.shown for file in self._lacking if meets(point, file)), "")
                why = f"{lacking} has been mapped, and has no such place" if lacking else _NOT_MAPPED
                yield Warned(f"{point.text} was never hit: {why}")

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

    def _awaits(self, mapping: Mapping) -> bool:
        return any(meets(point, Found(mapping.path, mapping.path)) for point in self._points)

    def _note(self, pid: int, mapping: Mapping, moment: int) -> None:
        """A process has mapped something: whether it is a file that is awaited, and not known yet."""
        if mapping.file is None or pid == os.getpid():
            return
        key = mapping.file, mapping.path
        if key in self._seen or not self._awaits(mapping):
            return
        with suppress(TracerError, OSError):  # of a process that has ended, and another may have it
            file = mapped_file(pid, mapping, root(pid))
            status = os.stat(file.path)
            self._seen.add(key)
            if (status.st_dev, status.st_ino) in self._identities:
                return
            self._identities.add((status.st_dev, status.st_ino))
            self._waiting.append(_Come(Found(file.path, file.name, sure=False), pid, name_of(pid), moment))

    # --- in a thread of their own ---

    def _find(self) -> None:
        """Looks through the memory maps for what is awaited."""
        for pid in self._pids or pids():
            with suppress(TracerError, OSError):
                awaited = [mapping for mapping in mappings(pid) if mapping.executable and self._awaits(mapping)]
                self._awaited += [(pid, mapping) for mapping in awaited]

    def _prepare(self, come: _Come) -> None:
        """Plans and compiles what a file adds."""
        try:
            more = without_points(self._prepared.more(self._plan, [come.file]), self._session.gone)
            self._check(more)
            self._planned = come, (more, self._session.compile_more(more))
        except Exception as error:
            self._planned = come, error

    def _check(self, plan: Plan) -> None:
        """Raises `TracerError` for sites that could do harm, or would not be met."""
        from tracer.backends.precheck import refuse_emulated, refuse_rewritten as refuse_red_zone
        from tracer.silence.rewritten import refuse_rewritten

        target, places = self._prepared.target, plan.places
        refuse_emulated(plan, target)
        if any(site.red_zone for site in places):
            refuse_red_zone(plan)
        by_hand = getattr(getattr(self._session, "running", None), "by_hand", False)
        if any(site.raised is not None or (by_hand and site.guard is not None) for site in places):
            raise TracerError("its semaphores would have to be raised by tracer itself")
        if self._pids:
            target.look_again()
            refuse_rewritten(plan, target.pictures)

    # --- in the trace's ---

    def _attach(self, come: _Come, result: tuple[Plan, Any] | Exception) -> None:
        what = f"{come.file.shown}, mapped by {come.pid} ({printable(come.name)})"
        try:
            if isinstance(result, Exception):
                raise result
            plan, program = result
            self._hold(plan.places)
            self._session.attach_more(program)
        except (NothingThere, NoFile):
            self._lacking.append(come.file)
            return
        except Exception as error:  # of one file: the trace goes on without it
            reason = error.message if isinstance(error, TracerError) else str(error) or type(error).__name__
            reason = reason.removeprefix(f"{printable(come.file.shown)}: ")
            self._tell(FileLeftOut(f"left out: {what}: {reason}"))
            self._told.append(come.file)
            return
        self._plan = replace(self._plan, sites_so_far=plan.sites_so_far)
        self._told.append(come.file)
        seconds = (time.monotonic_ns() - come.moment) / 1e9
        probes = probe_count(plan, self._session.left_out) - len(plan.user)
        self._tell(AttachedLater(probes, come.file.shown, come.pid, printable(come.name), seconds))
        self._tell(Detail(f"hits there are seen from {1000 * seconds:.0f} ms after it was mapped"))


class _Work:
    """Something that a thread does; it writes to `rope` when it is `over`."""

    def __init__(self, work: Callable[[], None], rope: int) -> None:
        self.over = False
        self._work, self._rope = work, rope
        self.thread = Thread(target=self._run, name="tracer-files", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self.over = True
            with suppress(OSError):
                os.write(self._rope, b"\0")


def without_points(plan: Plan, gone: Collection[int]) -> Plan:
    """The plan without the sites of attach points that were detached. Raises `NothingThere` where none is left."""
    if not gone:
        return plan
    first = first_numbers(plan)
    probes = []
    for probe in plan.probes:
        number, variants = first[probe.clause.id], []
        for variant in probe.variants:
            if sites := tuple([site for site in variant.sites if number + site.point not in gone]):
                variants.append(replace(variant, sites=sites))
        probes.append(replace(probe, variants=tuple(variants)))
    if not any(probe.variants for probe in probes):
        raise NothingThere("its attach points were detached")
    return replace(plan, probes=tuple(probes))


def later_files(
    prepared: Prepared, target: Target, session: Any, tell: Callable[[Notice], None], leases: Leases | None,
    controls: Controls, stack: ExitStack,
) -> LaterFiles | None:  # fmt: skip
    """The later files of a trace, looked at from now on and closed with the `stack`; None where that cannot be."""

    def hold(sites: Sequence[FileSite]) -> None:
        if leases is not None:
            leases.take(files_of(sites).values())

    try:
        files = LaterFiles(prepared, prepared.compiled.plan, target.pids, session, tell, hold)
    except OSError as error:
        tell(Warned(f"what processes map later is not traced (perf_event_open): {error.strerror}"))
        return None
    stack.callback(files.close)
    controls.wake = (*controls.wake, *files.wake)
    return files
