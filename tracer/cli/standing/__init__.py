"""`tracer uprobe --profile`: the probes that stand in the kernel, whoever made them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracer.kernel.standing import Standing

_NOTHING = "-"


def profile(as_json: bool = False) -> int:
    """Prints each probe with its hits, its misses and the processes that hold it; returns the exit status."""
    from tracer.errors import printable
    from tracer.kernel.standing.find import standing
    from tracer.kernel.standing.links import counts_runs

    probes, unknown = standing()
    for line in unknown:
        sys.stderr.write(f"tracer: {printable(line)}\n")
    if as_json:
        sys.stdout.write("".join(f"{json.dumps(_object(probe))}\n" for probe in probes))
    else:
        rows = [("HITS", "MISSES", "KIND", "PLACE", "THROUGH", "HELD BY"), *map(_row, probes)]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            numbers = [cell.rjust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
            texts = [cell.ljust(width) for cell, width in zip(row[2:5], widths[2:], strict=True)]
            sys.stdout.write(f"{'  '.join([*numbers, *texts, row[5]])}\n")
    if any("BPF" in probe.through and probe.hits is None for probe in probes) and not counts_runs():
        sys.stderr.write("tracer: hits of BPF programs are counted where kernel.bpf_stats_enabled is 1\n")
    return 1 if unknown else 0


def _row(probe: Standing) -> tuple[str, ...]:
    from tracer.errors import printable

    place = probe.place + (f" and {probe.places - 1} more" if probe.places > 1 and probe.place else "")
    if not probe.place and probe.places > 1:
        place = f"{probe.places} places" if probe.kind != "perf" else f"{probe.places} descriptors"
    by = ", ".join(f"{holder.pid} ({holder.name})" for holder in probe.holders)
    numbers = [_NOTHING if number is None else str(number) for number in (probe.hits, probe.misses)]
    return (*numbers, probe.kind, printable(place) or _NOTHING, printable(probe.through), printable(by) or _NOTHING)


def _object(probe: Standing) -> dict[str, object]:
    return {
        "kind": probe.kind, "place": probe.place, "places": probe.places, "through": probe.through, "hits": probe.hits,
        "misses": probe.misses, "held_by": [{"pid": holder.pid, "name": holder.name} for holder in probe.holders],
    }  # fmt: skip
