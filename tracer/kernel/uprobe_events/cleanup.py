"""Removes the definitions of sessions whose tracer and watcher are both gone."""

from __future__ import annotations

import os

from tracer.errors import TracerError
from tracer.kernel.tracefs import Tracefs, find
from tracer.kernel.uprobe_events import owner

_PATIENCE_S = 5.0


def cleanup() -> list[str]:
    """Removes every definition of a session that is dead, and says which; sessions that live are left alone.

    Where no lock file tells whether a session lives, its definitions go too unless the kernel says that they are in
    use; meanwhile no session is between its definitions and their use (`Tracefs.lock`).
    """
    return sweep(find(), without_lock=True)


def sweep(tracefs: Tracefs, without_lock: bool) -> list[str]:
    """Does what `cleanup` is for, and each start, which leaves alone what has no lock: another container's session may
    be between its definitions and their use.
    """
    alone = tracefs.lock(alone=True, patience_s=_PATIENCE_S) if without_lock else None
    try:
        return _sweep(tracefs, alone is not None)
    finally:
        if alone is not None:
            os.close(alone)


def _sweep(tracefs: Tracefs, without_lock: bool) -> list[str]:
    removed: list[str] = []
    busy: set[str] = set()
    for group, event in tracefs.definitions():
        if not owner.is_ours(group):
            continue
        alive = owner.is_alive(group)
        if alive or (alive is None and not without_lock):
            continue
        # Nobody else can be using them: of an owner without a lock file (see `lock`) they are left from a dead session,
        # for a living one with triggers would hold the lock that is held here alone.
        try:
            _remove_triggers(tracefs, group, event)
            _remove_triggers(tracefs.instance(group), group, event)
            undone = tracefs.undefine(group, event)
        except TracerError:
            undone = False
        if undone:
            removed.append(f"uprobe_events: {group}/{event}")
        else:
            busy.add(group)
    for group in filter(owner.is_ours, tracefs.instances()):
        from tracer.kernel.uprobe_events import instance  # seldom needed

        alive = owner.is_alive(group)
        if group in busy or alive or (alive is None and not without_lock):
            continue
        if instance.remove(tracefs, group):
            removed.append(f"instances: {group}")
        else:
            busy.add(group)
    owner.forget_dead(owner.DIRECTORY, frozenset(busy))
    return removed


def _remove_triggers(tracefs: Tracefs, group: str, event: str) -> None:
    """Raises `TracerError` where one stays: the event must then not be removed (see `watcher`)."""
    lines = tracefs.triggers(group, event)
    if lines:
        from tracer.kernel.workers.watcher import Watcher  # seldom needed

        watcher = Watcher()
        try:
            for line in lines:
                tracefs.trigger(group, event, "!" + line, watcher.append)
        finally:
            watcher.end()
