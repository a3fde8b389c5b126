"""Removes what sessions left whose tracer and watcher are both gone."""

from __future__ import annotations

from tracer.backends.ftrace import owner
from tracer.backends.ftrace.tracefs import Tracefs, find
from tracer.errors import TracerError


def cleanup() -> list[str]:
    """Removes every definition of a session that is dead, and says which; sessions that live are left alone.

    Where no lock tells whether a session lives, its definitions go too unless the kernel says that they are in use.
    """
    return sweep(find(), without_lock=True)


def sweep(tracefs: Tracefs, without_lock: bool, directory: str = owner.DIRECTORY) -> list[str]:
    """What `cleanup` does, and each start, which leaves alone what has no lock: another container's session may be
    between its definitions and their use.
    """
    removed: list[str] = []
    busy: set[str] = set()
    for group, event in tracefs.definitions():
        if not owner.is_ours(group):
            continue
        alive = owner.is_alive(group, directory)
        if alive or (alive is None and not without_lock):
            continue
        try:
            undone = tracefs.undefine(group, event)
        except TracerError:
            undone = False
        if undone:
            removed.append(f"uprobe_events: {group}/{event}")
        else:
            busy.add(group)
    owner.forget_dead(directory, frozenset(busy))
    return removed
