"""Says for `-v` where each map is aggregated, and why not in the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.backends.ftrace.program import ProbeEvent


def where_lines(events: Sequence[ProbeEvent]) -> tuple[str, ...]:
    """A line for each map that probes aggregate or add to, by name. A map can have several places."""
    places: dict[str, dict[str, None]] = {}
    for event in events:
        for name in () if event.is_tally else event.counts:
            places.setdefault(name, {})["in the kernel, by a counter"] = None
        for name in event.hist_maps:
            places.setdefault(name, {})["in the kernel, by a hist trigger"] = None
        for name, reason in event.reasons:
            places.setdefault(name, {})[f"in user space: {reason}"] = None
    return tuple(f"{name}: aggregated {'; '.join(sorted(places[name]))}" for name in sorted(places))
