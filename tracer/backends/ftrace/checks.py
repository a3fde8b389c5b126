"""What is checked before something is written to uprobe_events, and right after."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tracer.backends.ftrace.fetchargs import THREAD_NAME
from tracer.backends.ftrace.program import Event
from tracer.backends.ftrace.refusals import at_fetch
from tracer.errors import Source, TracerError
from tracer.resolve.model import FileIdentity

_PANIC_ON_WARN = "/proc/sys/kernel/panic_on_warn"


def check_panic(events: Sequence[Event], source: Source) -> None:
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


def can_stand(path: str) -> bool:
    """Whether a path can be written into a definition."""
    return not any(character.isspace() or character == "#" or not character.isprintable() for character in path)


def check_file(path: str, expected: FileIdentity) -> None:
    """Raises `TracerError` where the path does not mean that file any more."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise gone(path, error) from None
    check_identity(found, expected, path)


def gone(path: str, error: OSError) -> TracerError:
    """The error for a file that cannot be opened any more."""
    return TracerError(f"cannot open {path}: {error.strerror}", "it was there a moment ago: run the command again")


def check_identity(found: os.stat_result, expected: FileIdentity, path: str) -> None:
    """Raises `TracerError` where what was found is another file, or was changed."""
    is_now = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if is_now != (expected.device, expected.inode, expected.size, expected.mtime_ns):
        raise TracerError(f"{path} was replaced while it was being looked at", "run the command again")
