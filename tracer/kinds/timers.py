"""Kinds that need no file: BEGIN, END, `interval:s:1` and `self:signal:SIGUSR1`, which run in user space, those that
sample, and `watchpoint`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tracer.errors import Diagnostic, Fault, Span
from tracer.kinds.model import (
    DURATIONS_NS,
    LONGEST_PERIOD_NS,
    UNITS,
    AttachPoint,
    ClauseKind,
    Part,
    ProbeKind,
    count_of,
    malformed,
)

if TYPE_CHECKING:
    from tracer.kinds.model import Memory
    from tracer.kinds.site import Site

SHORTEST_PERIOD_NS = 1_000
_FORM = "interval:s:1, interval:ms:100, interval:us:500, interval:hz:10 or interval:1s"


def _interval(text: str, parts: list[Part], span: Span) -> AttachPoint:
    fields = [part.text for part in parts[1:]]
    period = None
    count = count_of(fields[-1]) if fields else None
    if len(fields) == 1:
        period = count  # a number alone is nanoseconds
    elif len(fields) == 2 and count is not None:
        unit = fields[0]
        if unit == "hz":
            period = 1_000_000_000 // count if count else 0
        elif unit in UNITS:
            period = count * DURATIONS_NS[unit]
        else:
            raise malformed(_FORM, parts[1].span, f"'{unit}' is not a unit of time")
    if period is None:
        raise malformed(_FORM, span, "the interval has no unit and number")
    if not SHORTEST_PERIOD_NS <= period <= LONGEST_PERIOD_NS:
        least = period < SHORTEST_PERIOD_NS
        raise malformed(_FORM, span, f"the interval is too {'short: at least 1 us' if least else 'long'}")
    # Its name has the words of the command line in place of `$1`.
    return AttachPoint("interval", ":".join([part.text for part in parts]), span, period_ns=period)


def _clock(point: AttachPoint) -> Site:
    from tracer.kinds.site import Clock  # not loaded to list probes

    unit, colon, count = point.text.partition(":")[2].partition(":")
    probe = f"interval:{unit}:{count_of(count)}" if colon else f"interval:us:{point.period_ns // 1000}"
    return Clock(point.kind, probe, "", (), 0, point.period_ns)


def _once(name: Literal["begin", "end"], word: str) -> ProbeKind:
    def build(text: str, parts: list[Part], span: Span) -> AttachPoint:
        if len(parts) > 1:
            what = f"{parts[0].text} takes nothing after it"
            raise Fault(Diagnostic(what, span, f"write {parts[0].text} {{ … }}"))
        return AttachPoint(name, text, span)

    def alone(point: AttachPoint) -> Site:
        from tracer.kinds.site import Site

        return Site(name, name, "", (), 0)

    clause = ClauseKind(name, first=name == "begin", last=name == "end")
    return ProbeKind(name, (word, name), word, build, clause, word, alone=alone, places=(name,))


INTERVAL = ProbeKind(
    "interval", ("interval", "i"), _FORM, _interval, ClauseKind("interval", type="interval"),
    "an interval clause", units=lambda: UNITS, alone=_clock, places=("interval",),
)  # fmt: skip
BEGIN = _once("begin", "BEGIN")
END = _once("end", "END")


def _sampling(name: Literal["profile", "software", "hardware"], short: str, form: str, where: str) -> ProbeKind:
    def build(text: str, parts: list[Part], span: Span) -> AttachPoint:
        from tracer.kinds import sampled  # loaded where there is one

        return sampled.build(kind, text, parts, span)

    def site(point: AttachPoint) -> Site:
        from tracer.kinds import sampled

        return sampled.site(point)

    def names() -> tuple[str, ...]:
        from tracer.kinds import sampled

        return sampled.names(name)

    kind = ProbeKind(
        name, (name, short), form, build, ClauseKind(name, at_hits=True), where,
        frozenset(("stack", "signal", "mode", "registers")), units=(lambda: UNITS) if name == "profile" else names,
        alone=site, places=(name,), told=("events", "probe"),
    )  # fmt: skip
    return kind


PROFILE = _sampling(
    "profile", "p", "profile:hz:99, profile:s:1, profile:ms:10, profile:us:500 or profile:10ms", "a profile clause"
)
SOFTWARE = _sampling("software", "s", "software:EVENT or software:EVENT:COUNT", "a software clause")
HARDWARE = _sampling("hardware", "h", "hardware:EVENT or hardware:EVENT:COUNT", "a hardware clause")


def _watchpoint(text: str, parts: list[Part], span: Span) -> AttachPoint:
    from tracer.kinds import watched  # loaded where there is one

    return watched.build(WATCHPOINT, text, parts, span)


def _watched(point: AttachPoint, memory: Memory) -> Site:
    from tracer.kinds import watched

    return watched.site(point, memory)


WATCHPOINT = ProbeKind(
    "watchpoint", ("watchpoint", "w"), "watchpoint:ADDRESS:LENGTH:MODE or watchpoint:FILE:VARIABLE:MODE", _watchpoint,
    ClauseKind("watchpoint", at_hits=True), "a watchpoint clause",
    frozenset(("stack", "memory", "signal", "mode", "registers")), "variable", watches=_watched, places=("watchpoint",),
    told=("watchpoints", "probe"),
)  # fmt: skip


def _self(text: str, parts: list[Part], span: Span) -> AttachPoint:
    words = [part.text for part in parts[1:]]
    if words != ["signal", SIGNAL]:
        pairs = zip(parts[1:], ("signal", SIGNAL), strict=False)
        at_fault = next((part.span for part, right in pairs if part.text != right), span)
        raise malformed(SELF.form, at_fault, f"a probe on tracer itself is at the signal {SIGNAL} alone")
    return AttachPoint("self", text, span)


def _at_signal(point: AttachPoint) -> Site:
    from tracer.kinds.site import Site

    return Site(point.kind, f"self:signal:{SIGNAL}", "", (), 0)


SIGNAL = "SIGUSR1"
SELF = ProbeKind(
    "self", ("self",), f"self:signal:{SIGNAL}", _self, ClauseKind("self", signal=True), "a self clause",
    units=lambda: (f"signal:{SIGNAL}",), alone=_at_signal, places=("self",),
)  # fmt: skip
