"""USDT probes: `usdt:/bin/app:prov:name`."""

from __future__ import annotations

from tracer.errors import Span
from tracer.kinds.model import AT_HITS, AttachPoint, Part, ProbeKind, malformed, miscount

_FORM = "usdt:FILE:PROVIDER:NAME, usdt:FILE:NAME or, with -p or -c, usdt::PROVIDER:NAME"


def _build(text: str, parts: list[Part], span: Span) -> AttachPoint:
    fields = [part.text for part in parts[1:]]
    if len(fields) not in (2, 3):
        raise malformed(_FORM, span, miscount("usdt", fields, "a file and a probe's name"))
    path, provider, name = (fields[0], None, fields[1]) if len(fields) == 2 else fields
    if not name:
        raise malformed(_FORM, span, "the usdt attach point names no probe")
    return AttachPoint("usdt", text, span, path or None, provider or None, name)


def _pattern(fields: list[str]) -> tuple[str, str, bool]:
    if len(fields) > 2:
        raise ValueError("usdt takes a path, a provider and a name")
    return fields[0] if len(fields) == 2 else "*", fields[-1] if fields else "*", False


USDT = ProbeKind(
    "usdt", ("usdt", "U"), _FORM, _build, AT_HITS, "a probe",
    frozenset(("probe", "signal", "registers", "arguments", "note")), "USDT probe", False,
    lambda point, file: file.usdt_probes(point), _pattern,
    places=("usdt",), told=("probes", "probe"),
)  # fmt: skip
