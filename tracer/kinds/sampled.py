"""What `profile:hz:99`, `software:page-faults:100` and `hardware:cache-misses` mean: attach points, and their sites.

The numbers are those of `<linux/perf_event.h>`, the names and default periods bpftrace's.
"""

from __future__ import annotations

from tracer.dataclass import dataclass
from tracer.errors import Diagnostic, Fault, Span
from tracer.kinds.model import (
    DURATIONS_NS,
    LONGEST_PERIOD_NS,
    UNITS,
    AttachPoint,
    Part,
    ProbeKind,
    count_of,
    malformed,
)
from tracer.kinds.site import Site

_HARDWARE, _SOFTWARE = 0, 1
_CPU_CLOCK, _TASK_CLOCK = 0, 1
SHORTEST_NS = 100_000
"""The shortest period of a clock. The kernel takes 10 us too (perf_swevent_start_hrtimer); tried on 6.18 with two
processors, 100,000 samples a second of each kept the machine from all else, tracer's own end among it.
"""

_EVENTS: dict[str, tuple[int, dict[str, tuple[int, int]]]] = {
    "software": (
        _SOFTWARE,
        {
            "alignment-faults": (7, 1),
            "bpf-output": (10, 1),
            "context-switches": (3, 1_000),
            "cpu-clock": (_CPU_CLOCK, 1_000_000),
            "cpu-migrations": (4, 1),
            "dummy": (9, 1),
            "emulation-faults": (8, 1),
            "major-faults": (6, 1),
            "minor-faults": (5, 100),
            "page-faults": (2, 100),
            "task-clock": (_TASK_CLOCK, SHORTEST_NS),  # bpftrace says 1, of which the kernel makes 10 us
        },
    ),
    "hardware": (
        _HARDWARE,
        {
            "backend-stalls": (8, 1_000_000),
            "branch-instructions": (4, 100_000),
            "branch-misses": (5, 100_000),
            "bus-cycles": (6, 100_000),
            "cache-misses": (3, 1_000_000),
            "cache-references": (2, 1_000_000),
            "cpu-cycles": (0, 1_000_000),
            "frontend-stalls": (7, 1_000_000),
            "instructions": (1, 1_000_000),
            "ref-cycles": (9, 1_000_000),
        },
    ),
}
"""For each kind perf's type, and for each event its number and the period where none is given."""

_ALIASES = {
    "branches": "branch-instructions",
    "cpu": "cpu-clock",
    "cs": "context-switches",
    "cycles": "cpu-cycles",
    "faults": "page-faults",
}


@dataclass(frozen=True, slots=True)
class Sampled(Site):
    """An event that perf counts on each CPU, of which every `period`-th is a hit; a clock's are nanoseconds. `type` and
    `config` are those of `perf_event_attr`.
    """

    type: int
    config: int
    period: int

    everywhere = True
    nameless = True

    @property
    def counts_in_hardware(self) -> bool:
        """Whether it needs the processor's performance counters."""
        return self.type == _HARDWARE


def names(kind: str) -> tuple[str, ...]:
    """The names of a kind's events, with the short ones."""
    events = _EVENTS[kind][1]
    return tuple(sorted((*events, *(short for short, name in _ALIASES.items() if name in events))))


def build(kind: ProbeKind, text: str, parts: list[Part], span: Span) -> AttachPoint:
    """The attach point. Raises `Fault`."""
    name = ":".join([part.text for part in parts])  # it has the words of the command line in place of `$1`
    make = _event if kind.name in _EVENTS else _clock
    return AttachPoint(kind.name, name, span, period_ns=make(kind, parts, span))


def site(point: AttachPoint) -> Site:
    """The site of an attach point; its `probe` is as bpftrace spells it."""
    _, *fields = point.text.split(":")
    if point.kind not in _EVENTS:
        unit, count = fields if len(fields) == 2 else ("us", str(point.period_ns // 1_000))
        probe = f"{point.kind}:{unit}:{count_of(count)}"
        return Sampled(point.kind, probe, "", (), 0, _SOFTWARE, _CPU_CLOCK, point.period_ns)
    type, events = _EVENTS[point.kind]
    number = events[_ALIASES.get(fields[0], fields[0])][0]
    given = f":{point.period_ns}" if len(fields) == 2 and fields[1] else ""
    return Sampled(point.kind, f"{point.kind}:{fields[0]}{given}", "", (), 0, type, number, point.period_ns)


def _clock(kind: ProbeKind, parts: list[Part], span: Span) -> int:
    """The nanoseconds between two samples."""
    fields = [part.text for part in parts[1:]]
    count = count_of(fields[-1]) if len(fields) in (1, 2) else None
    if count is None:
        raise malformed(kind.form, span, f"the {kind.name} attach point has no unit and number")
    period = count
    if len(fields) == 2:
        unit = fields[0]
        if unit not in UNITS:
            raise malformed(kind.form, parts[1].span, f"'{unit}' is not a unit of time")
        if count == 0:
            raise malformed(kind.form, span, "samples come at least once in a while: 0 means never")
        period = 1_000_000_000 // count if unit == "hz" else count * DURATIONS_NS[unit]
    _check_clock(period, span, "hz:99" if len(fields) == 2 and fields[0] == "hz" else "us:100", kind.name)
    return period


def _event(kind: ProbeKind, parts: list[Part], span: Span) -> int:
    """How many of the events are a hit."""
    if not 2 <= len(parts) <= 3:
        raise malformed(kind.form, span, f"the {kind.name} attach point takes the name of an event, and a number")
    type, events = _EVENTS[kind.name]
    name = parts[1].text
    event = events.get(_ALIASES.get(name, name))
    if event is None:
        from difflib import get_close_matches

        event_names = names(kind.name)
        near = get_close_matches(name, event_names, 1)
        what = f"'{name}' is not the name of a {kind.name} event" if name else f"the {kind.name} event has no name"
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(event_names)}"
        raise Fault(Diagnostic(what, parts[1].span, hint))
    if len(parts) == 2 or not parts[2].text:
        return event[1]
    period = count_of(parts[2].text)
    if period is None or not 0 < period <= LONGEST_PERIOD_NS:
        what = f"'{parts[2].text}' does not say how many of the events are a hit"
        raise Fault(Diagnostic(what, parts[2].span, f"write {kind.name}:{name}:{event[1]}"))
    if type == _SOFTWARE and event[0] in (_CPU_CLOCK, _TASK_CLOCK):
        _check_clock(period, parts[2].span, f"{name}:{SHORTEST_NS}", kind.name)
    return period


def _check_clock(period: int, span: Span, remedy: str, kind: str) -> None:
    if period < SHORTEST_NS:
        what = "a clock that samples more often than once in 100 us would keep the machine from all else"
        raise Fault(Diagnostic(what, span, f"write {kind}:{remedy}"))
    if period > LONGEST_PERIOD_NS:
        raise Fault(Diagnostic("the period is too long", span, f"write {kind}:{remedy}"))
