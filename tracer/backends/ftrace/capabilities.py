"""Finds by trying what this host allows the ftrace backend."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tracer.backends.ftrace.features import states
from tracer.backends.ftrace.string_bounds import bounds_strings
from tracer.errors import TracerError
from tracer.kernel import perf
from tracer.kernel.tracefs import IN_README, Tracefs, find
from tracer.kernel.trials.abilities import Abilities
from tracer.plan.states import NEEDS_ROOT, Capabilities, Unsupported, settled

_ROOT_ONLY = ("tracefs", "uprobe_events", "ref_ctr", "ustring", "hist triggers", "probes per event", "perf tracepoints")


def detect() -> Capabilities:
    """The table; quick, and without root what only root can see is "unknown"."""
    facts = {"perf_event_paranoid": _first_line("/proc/sys/kernel/perf_event_paranoid")}
    strings = bounds_strings()
    facts["strings in bounds"] = "yes" if strings else "no: needs Linux 6.1.115, 6.6.59 or 6.12"
    unknown: dict[str, bool | None] = dict.fromkeys((*IN_README, "inherit_thread", "format_lost"))
    unknown["string_bounds"] = strings
    if os.geteuid() != 0:
        facts |= {name: "unknown" for name in _ROOT_ONLY}
        return Capabilities("ftrace", NEEDS_ROOT, settled(states, unknown), facts)
    try:
        tracefs = find()
        in_readme = {name: tracefs.knows(name) for name in IN_README}
    except TracerError as error:
        facts["tracefs"] = f"no: {error.message}"
        return Capabilities("ftrace", Unsupported(error.message, error.hint), settled(states, unknown), facts)
    facts |= _of_readme(tracefs, in_readme)
    refused = _try_perf()
    facts["perf tracepoints"] = "yes" if refused is None else f"no: {refused.reason}"
    abilities = Abilities.detect()
    has = in_readme | {"inherit_thread": abilities.inherit_thread, "format_lost": abilities.format_lost}
    has["string_bounds"] = strings
    return Capabilities("ftrace", refused, settled(states, has), facts)


def _of_readme(tracefs: Tracefs, in_readme: dict[str, bool]) -> dict[str, str]:
    def has(name: str, since: str = "") -> str:
        return "yes" if in_readme[name] else f"no{since}"

    return {
        "tracefs": tracefs.root,
        "uprobe_events": "yes",
        "ref_ctr": has("ref_ctr", ": needs Linux 4.20"),
        "ustring": has("ustring"),
        "hist triggers": has("hist"),
        "probes per event": "many" if in_readme["many"] else "one",
    }


def _try_perf() -> Unsupported | None:
    """Asks perf for a tracepoint that cannot be: whoever may have one hears EINVAL. Closing a real one takes 30 ms, in
    which the kernel waits for others.
    """
    attributes = perf.Attributes(perf.TYPE_TRACEPOINT, _NO_EVENT, perf.SAMPLE_RAW, 0, perf.DISABLED)
    try:
        os.close(perf.open_event(attributes, -1, perf.online_cpus()[0]))
    except OSError as error:
        if error.errno != errno.EINVAL:
            reason = f"perf_event_open is refused: {error.strerror}"
            return Unsupported(reason, "kernel lockdown, a seccomp filter or kernel.perf_event_paranoid may forbid it")
    return None


_NO_EVENT = 0xFFFF_FFFF
"""Numbers of events have 16 bits."""


def _first_line(path: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return "unknown"
    return lines[0] if lines else "unknown"
