"""The definitions of one session in uprobe_events: made, described, and undone whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from tracer.dataclass import replace
from tracer.errors import TracerError
from tracer.kernel.tracefs import LONGEST_LINE, Refused, Tracefs, find
from tracer.kernel.trials.instructions import Stopped
from tracer.kernel.uprobe_events import owner
from tracer.kernel.uprobe_events.cleanup import sweep
from tracer.kernel.uprobe_events.events import MOST_FETCHES, EventFormat, ProbePlace, Undefinable, UprobeEvent
from tracer.kernel.uprobe_events.format import parse_format
from tracer.kernel.workers.watcher import Watcher
from tracer.resolve.files.identity import open_verified, verify

_PATIENCE_S = 2.0
_BATCH = 512

_E = TypeVar("_E", bound=UprobeEvent)


class Definitions:
    """The definitions of one group of events. `close` removes them; where it cannot, the watcher goes on trying.

    `watcher` is what opens and closes descriptors of the events.
    """

    def __init__(self, watcher: Watcher | None = None) -> None:
        """Claims a group, and starts the watcher where there is none yet; it ends then with the definitions. Raises
        `TracerError`.
        """
        self._tracefs: Tracefs = find()
        self._seen_by = self._tracefs  # where the triggers stand
        sweep(self._tracefs, without_lock=False)
        self._defined: list[str] = []
        self._triggers: list[tuple[str, str]] = []
        self._formats: dict[str, EventFormat] = {}
        self._placed: list[str] = []  # file and event of each place, as the kernel's list of hits has them
        self._can_stand: dict[str, bool] = {}
        self.watcher = watcher or Watcher()
        self._ends_watcher = watcher is None
        try:
            self._owner = owner.claim()
            self.watcher.hold(self._owner.fd)
        except BaseException:
            self._end_watcher()
            raise
        self.watcher.undo_unlink(self._owner.path)
        self._unused: int | None = None

    @property
    def group(self) -> str:
        """The session's group."""
        return self._owner.group

    def define(self, events: Sequence[UprobeEvent], stop: Callable[[], bool] = lambda: False) -> None:
        """Defines all, each with one place where there cannot be several (`takes_several`).

        Raises `TracerError`, `Undefinable` where it is about a place, and `Stopped` once `stop` says so.
        """
        # Where it cannot be had, somebody else holds it for long, or this system has none: /run tells all the same.
        self._unused = self._tracefs.lock(alone=False, patience_s=_PATIENCE_S)
        self._define_events([event for event in events if event.is_defined], stop)

    def define_more(self, events: Sequence[_E]) -> None:
        """Defines further events while others are in use; all or none. Raises as `define`."""
        held = self._unused
        if held is None:
            self._unused = self._tracefs.lock(alone=False, patience_s=_PATIENCE_S)
        try:
            self._define_events(events)
        except BaseException:
            self.drop(events)
            if held is None:
                self._unlock()
            raise

    def drop(self, events: Sequence[UprobeEvent]) -> None:
        """Removes events that nobody uses; what cannot be removed now `close` tries again."""
        for event in events:
            if event.name in self._defined:
                self._drop(event.name)

    def define_if_possible(self, events: Sequence[_E]) -> list[_E]:
        """Defines further events, and returns those that the kernel takes."""
        defined = []
        for event in events:
            try:
                self._define_events([event])
                defined.append(event)
            except TracerError:
                self._drop(event.name)
        return defined

    def without(self, event: _E, refused: Collection[ProbePlace]) -> _E | None:
        """Defines an event anew, without some places, where it has any of them; None where it has no other. Raises
        `TracerError`.
        """
        places = tuple(place for place in event.places if place not in refused)
        if len(places) == len(event.places):
            return event
        self._drop(event.name)
        if not places:
            return None
        fresh = replace(event, name=f"{event.name}_", places=places)
        self._define_events([fresh])
        return fresh

    @contextmanager
    def trial(self, event: UprobeEvent, places: Sequence[ProbePlace]) -> Iterator[int]:
        """The number of an event that has some of another's places, and is gone afterwards. Raises `TracerError`."""
        part = replace(event, name="trial", places=tuple(places))
        self._define_events([part])
        try:
            yield parse_format(self._tracefs.format(self.group, part.name), part.fetches(part.places[0])).id
        finally:
            self._drop(part.name)

    def _drop(self, name: str) -> None:
        """Removes an event that nobody uses; where it cannot be removed now, `close` tries again."""
        with suppress(TracerError):
            if self._tracefs.undefine(self.group, name):
                self._defined.remove(name)
                self._placed = [placed for placed in self._placed if placed.rpartition(" ")[2] != name]

    def _define_events(self, events: Sequence[UprobeEvent], stop: Callable[[], bool] = lambda: False) -> None:
        # The kernel looks for the event of a definition from the first place on that it has: so the first ones first.
        # What remains grows with the square: it compares each new place with all definitions there are, whosever
        # (validate_ref_ctr_offset), some 13 ns each on 6.18, so 10,000 places take 0.5 s and 40,000 more than 10 s.
        for event in events:
            if stop():
                raise Stopped
            self.watcher.undo_write(self._tracefs.definitions_file, f"-:{self.group}/{event.name}")
            self._defined.append(event.name)
            self._define_alone(event, event.places[:1])
        for event in events:
            for first in range(1, len(event.places), _BATCH):
                if stop():
                    raise Stopped
                self._define_batch(event, first)

    def _define_batch(self, event: UprobeEvent, first: int) -> None:
        """Defines some places by one write; where the kernel refuses one, the rest one by one, to learn which."""
        places = event.places[first : first + _BATCH]
        lines = [line for place in places if (line := self._line(event, place)) is not None]
        files = {(place.file.path, place.file.identity) for place in places}
        if len(lines) == len(places):
            try:
                for path, identity in files:
                    verify(path, identity)
                whole = self._tracefs.define_all(lines)
                # Whether the names still meant those files when the kernel looked them up.
                for path, identity in files:
                    verify(path, identity)
                if whole:
                    self._placed += [f"{place.file.path} {event.name}" for place in places]
                    return
                taken = self._tracefs.places(self.group, event.name) - first
                self._placed += [f"{place.file.path} {event.name}" for place in places[:taken]]
                places = places[taken:]
            except TracerError as error:
                raise Undefinable(error, event, places[0]) from None
        self._define_alone(event, places)

    def _define_alone(self, event: UprobeEvent, places: Sequence[ProbePlace]) -> None:
        for place in places:
            try:
                self._define(event, place)
            except TracerError as error:
                raise Undefinable(error, event, place, error.fetch if isinstance(error, Refused) else None) from None

    def _line(self, event: UprobeEvent, place: ProbePlace) -> str | None:
        """The definition of a place under its file's name; None where it cannot be said so."""
        path = place.file.path
        if path not in self._can_stand:
            self._can_stand[path] = _can_stand(path)
        line = event.definition(place, self.group, path)
        sayable = self._can_stand[path] and len(event.fetches(place)) <= MOST_FETCHES
        return line if sayable and len(os.fsencode(line)) <= LONGEST_LINE else None

    def takes_several(self) -> bool:
        """Whether an event can have several places (Linux 5.4)."""
        return self._tracefs.knows("many")

    def in_use(self) -> None:
        """Notes that the kernel itself refuses to remove them from now on; but for those that have triggers
        alone, which outlive their tracer. Their lock stays: who can take it `alone` knows that no session with triggers
        lives.
        """
        if not self._triggers:
            self._unlock()

    def why_no_triggers(self, follow: bool) -> str | None:
        """Why hist triggers cannot be used here, for every process or to `follow` some; None where they can."""
        if not self._tracefs.knows("hist"):
            return "this kernel has no hist triggers"
        if follow:
            from tracer.kernel.uprobe_events.instance import knows_instances  # seldom needed, as below

            return None if knows_instances(self._tracefs) else "hist triggers of this kernel cannot follow processes"
        if self._tracefs.restricts_processes():
            return "set_event_pid or set_event_notrace_pid of tracefs hides processes from hist triggers"
        return None

    def follow(self, pids: Sequence[int]) -> None:
        """Lets the triggers to come see these processes alone, and all that they start. Raises `TracerError`."""
        from tracer.kernel.uprobe_events import instance

        self._seen_by = instance.make(self._tracefs, self.group, pids, self.watcher)

    def set_trigger(self, event: UprobeEvent, line: str, action: str) -> None:
        """Sets a hist trigger: `line` as it is undone, `action` as it is set. Raises `TracerError`."""
        if self._unused is None:
            raise TracerError("the lock on uprobe_events cannot be taken")
        self.watcher.undo_write(self._seen_by.trigger_file(self.group, event.name), f"!{line}")
        self._triggers.append((event.name, f"!{line}"))
        self.alter_trigger(event, action)

    def alter_trigger(self, event: UprobeEvent, action: str) -> None:
        """Pauses or continues a trigger. Raises `TracerError`."""
        self._seen_by.trigger(self.group, event.name, action, self.watcher.append)

    def hist(self, event: UprobeEvent) -> str:
        """The tables of an event's triggers. Raises `TracerError`."""
        return self._seen_by.hist(self.group, event.name)

    def remove_triggers(self, event: UprobeEvent | None = None) -> None:
        """Removes all triggers, or those of one event, newest first. An event that keeps one is not removed either."""
        tried = [trigger for trigger in self._triggers[::-1] if event is None or trigger[0] == event.name]
        for name, line in tried:
            with suppress(TracerError):
                self._seen_by.trigger(self.group, name, line, self.watcher.append)
        stay = {name for name, _ in tried if self._seen_by.triggers(self.group, name)}
        self._triggers = [trigger for trigger in self._triggers if trigger not in tried or trigger[0] in stay]

    def _unlock(self) -> None:
        if self._unused is not None:
            os.close(self._unused)
            self._unused = None

    def format(self, event: UprobeEvent) -> EventFormat:
        """The layout of an event."""
        if (layout := event.layout) is not None:
            return layout
        if event.name not in self._formats:
            self._formats[event.name] = parse_format(
                self._tracefs.format(*event.where(self.group)), event.fetches(event.places[0])
            )
        return self._formats[event.name]

    def hits(self) -> dict[str, list[int]] | None:
        """Hits so far of each place of each event, in the order of their definition; None where the lists cannot be
        read now, for want of a descriptor.

        The kernel's list of hits names files and events, not groups. Where another tracer has an `e0` in the same file,
        the list of definitions tells whose is whose; None where somebody changed that in between.
        """
        our_places = set(self._placed)
        try:
            places, counts = self._tracefs.profile()
            ours = [index for index, place in enumerate(places) if place in our_places]
            lines = self._tracefs.definition_lines() if len(ours) != len(self._placed) else None
        except TracerError:
            return None
        if lines is not None:
            if [name for _, name in lines] != [place.rpartition(" ")[2] for place in places]:
                return None
            ours = [index for index, (group, _) in enumerate(lines) if group == self.group]
        by_event: dict[str, list[int]] = {}
        for index in ours:
            by_event.setdefault(places[index].rpartition(" ")[2], []).append(counts[index])
        return by_event

    def close(self) -> None:
        """Removes all definitions, newest first."""
        self.watcher.settle()
        self.remove_triggers()
        stays = self._seen_by is not self._tracefs and not self._remove_instance()
        self._unlock()
        deadline = time.monotonic() + _PATIENCE_S
        remaining = self._defined[::-1]
        while remaining:
            remaining = [name for name in remaining if not self._undefine(name)]
            if time.monotonic() > deadline:
                break
            if remaining:
                time.sleep(0.005)
        if not remaining and not stays:
            self.watcher.forget()
        self._end_watcher()
        self._defined = []
        self._owner.release(empty=not remaining and not stays)

    def _remove_instance(self) -> bool:
        from tracer.kernel.uprobe_events import instance

        return instance.remove(self._tracefs, self.group)

    def _end_watcher(self) -> None:
        if self._ends_watcher:
            self.watcher.end()

    def _undefine(self, name: str) -> bool:
        if any(name == event for event, _ in self._triggers):
            return False
        try:
            return self._tracefs.undefine(self.group, name)
        except TracerError:
            return False

    def _define(self, event: UprobeEvent, place: ProbePlace) -> None:
        site = place.file
        what = f"{site.path}:0x{site.offset:x}"
        if (wanted := len(event.fetches(place))) > MOST_FETCHES:
            # 6.1 leaves out those beyond without a word; 6.12 and 6.18 refuse them.
            message = f"the kernel takes {MOST_FETCHES} values of a probe, and at {what} {wanted} are to be read"
            raise Refused(message, "read fewer there, or --backend bcc", "", MOST_FETCHES)
        fd = open_verified(site.path, site.identity)
        try:
            path = site.path
            line = event.definition(place, self.group, path)
            if not _can_stand(site.path) or len(os.fsencode(line)) > LONGEST_LINE:
                # The line is cut into words at blanks and ends at '#', with no way to escape them; this name of the
                # same file is looked up once, here and now.
                path = f"/proc/self/fd/{fd}"
                line = event.definition(place, self.group, path)
            self._tracefs.define(line, what)
            self._placed.append(f"{path} {event.name}")
            # Whether the name still meant that file when the kernel looked it up.
            verify(site.path, site.identity)
        finally:
            os.close(fd)


def _can_stand(path: str) -> bool:
    """Whether a path can be written into a definition."""
    return not any(character.isspace() or character == "#" or not character.isprintable() for character in path)
