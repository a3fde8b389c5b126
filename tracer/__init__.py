"""Traces user programs in one line, through eBPF or through ftrace, with the same answer.

What can be imported from here is the library; all else in the package is its own business and may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tracer.api import check, events, notices, probes, trace
    from tracer.api.consumer import Consumer, Writer
    from tracer.api.running import Trace
    from tracer.api.values import Enumerator, Frame, Stack
    from tracer.errors import Diagnostic, ProgramError, Source, Span, TracerError, UsageError
    from tracer.lang.aggregations.aggregation import Row as Bucket
    from tracer.resolve.listing import Listed as Probe
    from tracer.results.events import Loss

_PLACES = {
    "tracer.api": ("check", "events", "probes", "notices", "trace"),
    "tracer.api.consumer": ("Consumer", "Writer"),
    "tracer.api.running": ("Trace",),
    "tracer.api.values": ("Enumerator", "Frame", "Stack"),
    "tracer.errors": ("Diagnostic", "ProgramError", "Source", "Span", "TracerError", "UsageError"),
    "tracer.lang.aggregations.aggregation": ("Bucket",),
    "tracer.resolve.listing": ("Probe",),
    "tracer.results.events": ("Loss",),
}
_RENAMED = {"Bucket": "Row", "Probe": "Listed"}

__all__ = [
    "Bucket", "Consumer", "Diagnostic", "Enumerator", "Frame", "Loss", "Probe", "ProgramError", "Source", "Span",
    "Stack", "Trace", "TracerError", "UsageError", "Writer", "check", "events", "notices", "probes", "trace",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a name when it is asked for: the command line needs few of them."""
    from importlib import import_module

    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(module), _RENAMED.get(name, name))
    raise AttributeError(f"module 'tracer' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
