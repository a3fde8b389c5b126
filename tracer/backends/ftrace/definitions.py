"""The definitions of one session in uprobe_events: made, described, and undone whatever happens."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from tracer.backends.ftrace import owner
from tracer.backends.ftrace.cleanup import sweep
from tracer.backends.ftrace.fetchargs import THREAD_NAME
from tracer.backends.ftrace.layout import EventFormat, parse_format
from tracer.backends.ftrace.program import MOST_FETCHES, Event, Place
from tracer.backends.ftrace.refusals import at_clause, at_fetch
from tracer.backends.ftrace.tracefs import LONGEST_LINE, Refused, Tracefs, find
from tracer.backends.ftrace.watcher import Watcher
from tracer.errors import Source, TracerError
from tracer.resolve.model import FileIdentity

_PATIENCE_S = 2.0
_PANIC_ON_WARN = "/proc/sys/kernel/panic_on_warn"


class Definitions:
    """One group of events. `close` removes them; where it cannot, the watcher goes on trying."""

    def __init__(self) -> None:
        """Claims a group and starts the watcher. Raises `TracerError`."""
        self._tracefs: Tracefs = find()
        sweep(self._tracefs, without_lock=False)
        self._defined: list[str] = []
        self._triggers: list[tuple[str, str]] = []
        self._formats: dict[str, EventFormat] = {}
        try:
            self._watcher = Watcher()
        except OSError as error:
            raise _no_watcher(error) from None
        try:
            self._owner = owner.claim()
        except BaseException:
            self._watcher.end(undone=True)
            raise
        self._watcher.undo_unlink(self._owner.path)
        self._unused: int | None = None

    @property
    def group(self) -> str:
        """The session's group."""
        return self._owner.group

    def define(self, events: Sequence[Event], source: Source) -> list[Event]:
        """Defines all; returns the events as they are in the kernel, which before Linux 5.4 are one for each place.

        Raises `TracerError`, with a span of `source` where it is about a probe.
        """
        # Where it cannot be had, somebody else holds it for long, or this system has none: /run tells all the same.
        self._unused = self._tracefs.lock(alone=False, patience_s=_PATIENCE_S)
        _check_panic(events, source)
        several = self._tracefs.knows("many")
        split = [part for event in events for part in ([event] if several else event.split())]
        for event in split:
            self._watcher.undo_write(self._tracefs.definitions_file, f"-:{self.group}/{event.name}")
            self._defined.append(event.name)
            for place in event.places:
                try:
                    self._define(event, place)
                except Refused as error:
                    raise at_fetch(error, source, event, place.branch, error.fetch) from None
                except TracerError as error:
                    raise at_clause(error, source, event, place.branch) from None
        return split

    def wait_for_watcher(self) -> None:
        """To be called before anything is enabled: its interpreter comes up while there is other work to do."""
        try:
            self._watcher.wait_until_up()
        except OSError as error:
            raise _no_watcher(error) from None

    def in_use(self) -> None:
        """From now on the kernel itself refuses to remove them; but for those that have triggers alone, which outlive
        their tracer. Their lock stays: who can take it `alone` knows that no session with triggers lives.
        """
        if not self._triggers:
            self._unlock()

    def why_no_triggers(self) -> str | None:
        """Why hist triggers cannot be used here, None where they can."""
        if not self._tracefs.knows("hist"):
            return "this kernel has no hist triggers"
        if self._tracefs.restricts_processes():
            return "set_event_pid or set_event_notrace_pid of tracefs hides processes from hist triggers"
        return None

    def set_trigger(self, event: Event, line: str, action: str) -> None:
        """Sets a hist trigger: `line` as it is undone, `action` as it is set. Raises `TracerError`."""
        if self._unused is None:
            raise TracerError("the lock on uprobe_events cannot be had")
        self._watcher.undo_write(self._tracefs.trigger_file(self.group, event.name), f"!{line}")
        self._triggers.append((event.name, f"!{line}"))
        self.alter_trigger(event, action)

    def alter_trigger(self, event: Event, action: str) -> None:
        """Pauses or continues a trigger. Raises `TracerError`."""
        self._tracefs.trigger(self.group, event.name, action)

    def hist(self, event: Event) -> str:
        """The tables of an event's triggers. Raises `TracerError`."""
        return self._tracefs.hist(self.group, event.name)

    def remove_triggers(self, event: Event | None = None) -> None:
        """Removes all triggers, or those of one event, newest first. Whether it could shows when the event goes."""
        for name, line in self._triggers[::-1]:
            if event is None or name == event.name:
                self._triggers.remove((name, line))
                with suppress(TracerError):
                    self._tracefs.trigger(self.group, name, line)

    def _unlock(self) -> None:
        if self._unused is not None:
            os.close(self._unused)
            self._unused = None

    def format(self, event: Event) -> EventFormat:
        """The layout of a defined event."""
        if event.name not in self._formats:
            self._formats[event.name] = parse_format(
                self._tracefs.format(self.group, event.name), event.fetches(event.places[0])
            )
        return self._formats[event.name]

    def close(self) -> None:
        """Removes all definitions, newest first."""
        self.remove_triggers()
        self._unlock()
        deadline = time.monotonic() + _PATIENCE_S
        left = self._defined[::-1]
        while left:
            left = [name for name in left if not self._undefine(name)]
            if time.monotonic() > deadline:
                break
            if left:
                time.sleep(0.005)
        self._watcher.end(undone=not left)
        self._defined = []
        self._owner.release(empty=not left)

    def _undefine(self, name: str) -> bool:
        try:
            return self._tracefs.undefine(self.group, name)
        except TracerError:
            return False

    def _define(self, event: Event, place: Place) -> None:
        site = place.site
        what = f"{site.path}:0x{site.offset:x}"
        if (wanted := len(event.fetches(place))) > MOST_FETCHES:
            # 6.1 leaves out those beyond without a word; 6.12 and 6.18 refuse them.
            message = f"the kernel takes {MOST_FETCHES} values of a probe, and at {what} {wanted} are to be read"
            raise Refused(message, "read fewer there, or --backend bcc", "", MOST_FETCHES)
        try:
            fd = os.open(site.path, os.O_PATH | os.O_CLOEXEC)
        except OSError as error:
            raise _gone(site.path, error) from None
        try:
            _check_identity(os.fstat(fd), site.identity, site.path)
            line = event.definition(place, self.group, site.path)
            if not _can_stand(site.path) or len(os.fsencode(line)) > LONGEST_LINE:
                # The line is cut into words at blanks and ends at '#', with no way to escape them; this name of the
                # same file is looked up once, here and now.
                line = event.definition(place, self.group, f"/proc/self/fd/{fd}")
            self._tracefs.define(line, what)
            # Whether the name still meant that file when the kernel looked it up.
            _check_identity(_stat(site.path), site.identity, site.path)
        finally:
            os.close(fd)


def _check_panic(events: Sequence[Event], source: Source) -> None:
    """Refuses strings where a long one could stop the machine (see `fetchargs`)."""
    if _first_line(_PANIC_ON_WARN) != "1":
        return
    for event in events:
        for place in event.places:
            for number, fetch in enumerate(place.fetches):
                if not fetch.is_string or fetch == THREAD_NAME:
                    continue
                error = TracerError(
                    "this machine panics at a kernel warning, and the kernel warns of strings longer than a page",
                    "--backend bcc reads it without; or: sysctl kernel.panic_on_warn=0",
                )
                raise at_fetch(error, source, event, place.branch, number)


def _first_line(path: str) -> str:
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return ""


def _can_stand(path: str) -> bool:
    """Whether a path can be written into a definition."""
    return not any(character.isspace() or character == "#" or not character.isprintable() for character in path)


def _stat(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise _gone(path, error) from None


def _no_watcher(error: OSError) -> TracerError:
    message = f"cannot start the process that cleans up: {os.strerror(error.errno or 0)}"
    return TracerError(message, "is memory short, or the number of processes limited (ulimit -u)?")


def _gone(path: str, error: OSError) -> TracerError:
    return TracerError(f"cannot open {path}: {error.strerror}", "it was there a moment ago: run the command again")


def _check_identity(found: os.stat_result, expected: FileIdentity, path: str) -> None:
    is_now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if is_now != (expected.device, expected.inode, expected.size, expected.mtime_ns):
        raise TracerError(f"{path} was replaced while it was being looked at", "run the command again")
