"""The events that this kernel has, as tracefs lists them. Nothing is written there."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tracer.kernel.tracefs import Tracefs, find

_CLOSE = 0.6
"""How alike a name must be to be suggested (difflib's ratio)."""


class KernelEvents:
    """See `kinds.model.Machine`. Each method raises `TracerError` where this user cannot see what the kernel has."""

    def __init__(self) -> None:
        self._tracefs: Tracefs | None = None
        self._names: dict[str, list[str]] = {}

    def events(self, system: str, name: str) -> list[tuple[str, str]]:
        """The events that wildcards match, in the order of their names; tracer's own and others' uprobes are not among
        them, nor are the events of ftrace itself, which perf cannot read.
        """
        if not any(sign in system + name for sign in "*?["):
            return [(system, name)] if name in self._of(system) else []
        return [
            (one_system, event)
            for one_system in self._systems()
            if fnmatchcase(one_system, system)
            for event in self._of(one_system)
            if fnmatchcase(event, name)
        ]

    def layout(self, system: str, name: str) -> str:
        """The `format` file of one."""
        return self._root.format(system, name)

    def near(self, system: str, name: str) -> str | None:
        """The remedy where there is no such event: names that look like it."""
        from difflib import get_close_matches

        names = self._of(system)
        if not names and (other := get_close_matches(system, self._systems(), 1, _CLOSE)):
            return f"did you mean tracepoint:{other[0]}:{name}?"
        if other := get_close_matches(name, names, 1, _CLOSE):
            return f"did you mean tracepoint:{system}:{other[0]}?"
        return f"tracer list 'tracepoint:{system if names else '*'}:*' shows those that there are"

    @property
    def _root(self) -> Tracefs:
        if self._tracefs is None:
            self._tracefs = find(mount=False)
        return self._tracefs

    def _systems(self) -> list[str]:
        return self._root.event_systems()

    def _of(self, system: str) -> list[str]:
        if system not in self._names:
            self._names[system] = self._root.events_of(system) if system in self._systems() else []
        return self._names[system]
