"""What runs in user space: BEGIN, END and `interval:s:1`."""

from __future__ import annotations

import re
from typing import Literal

from tracer.errors import Diagnostic, Fault, Span
from tracer.probes.model import AttachPoint, Part, ProbeKind, malformed

SHORTEST_PERIOD_NS = 1_000
LONGEST_PERIOD_NS = 1 << 62
DURATIONS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_DURATION = r"([0-9]+)(ns|us|ms|[smhd])"
_FORM = "interval:s:1, interval:ms:100, interval:us:500, interval:hz:10 or interval:1s"


def _interval(text: str, parts: list[Part], span: Span) -> AttachPoint:
    fields = [part.text for part in parts[1:]]
    period = None
    if len(fields) == 1 and (found := re.fullmatch(_DURATION, fields[0])):
        period = int(found[1][:25]) * DURATIONS_NS[found[2]]
    elif len(fields) == 2 and fields[1].isascii() and fields[1].isdigit():
        unit, count = fields[0], int(fields[1][:25])
        if unit == "hz":
            period = 1_000_000_000 // count if count else 0
        elif unit in DURATIONS_NS and unit != "d":
            period = count * DURATIONS_NS[unit]
        else:
            raise malformed(_FORM, parts[1].span, f"'{unit}' is not a unit of time")
    if period is None:
        raise malformed(_FORM, span, "the interval has no unit and number")
    if not SHORTEST_PERIOD_NS <= period <= LONGEST_PERIOD_NS:
        least = period < SHORTEST_PERIOD_NS
        raise malformed(_FORM, span, f"the interval is too {'short: at least 1 us' if least else 'long'}")
    return AttachPoint("interval", text, span, period_ns=period)


def _once(name: Literal["begin", "end"], word: str) -> ProbeKind:
    def build(text: str, parts: list[Part], span: Span) -> AttachPoint:
        if len(parts) > 1:
            what = f"{parts[0].text} takes nothing after it"
            raise Fault(Diagnostic(what, span, f"write {parts[0].text} {{ … }}"))
        return AttachPoint(name, text, span)

    return ProbeKind(name, (word, name), word, build, name, word)


INTERVAL = ProbeKind(
    "interval", ("interval", "i"), _FORM, _interval, "interval", "an interval clause", units=("hz", "ms", "s", "us")
)
BEGIN = _once("begin", "BEGIN")
END = _once("end", "END")
