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

    found, unknown = standing()
    for line in unknown:
        sys.stderr.write(f"tracer: {printable(line)}\n")
    if as_json:
        sys.stdout.write("".join(f"{json.dumps(_object(each))}\n" for each in found))
    else:
        rows = [("HITS", "MISSES", "KIND", "PLACE", "THROUGH", "HELD BY"), *map(_row, found)]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            cells = [row[at].rjust(widths[at]) if at < 2 else row[at].ljust(widths[at]) for at in range(5)]
            sys.stdout.write(f"{'  '.join([*cells, row[5]])}\n")
    if any("BPF" in each.through and each.hits is None for each in found) and not counts_runs():
        sys.stderr.write("tracer: hits of BPF programs are counted where kernel.bpf_stats_enabled is 1\n")
    return 1 if unknown else 0


def _row(each: Standing) -> tuple[str, ...]:
    from tracer.errors import printable

    place = each.place + (f" and {each.places - 1} more" if each.places > 1 and each.place else "")
    if not each.place and each.places > 1:
        place = f"{each.places} places" if each.kind != "perf" else f"{each.places} descriptors"
    by = ", ".join(f"{holder.pid} ({holder.name})" for holder in each.holders)
    numbers = [_NOTHING if number is None else str(number) for number in (each.hits, each.misses)]
    return (*numbers, each.kind, printable(place) or _NOTHING, printable(each.through), printable(by) or _NOTHING)


def _object(each: Standing) -> dict[str, object]:
    return {
        "kind": each.kind, "place": each.place, "places": each.places, "through": each.through, "hits": each.hits,
        "misses": each.misses, "held_by": [{"pid": holder.pid, "name": holder.name} for holder in each.holders],
    }  # fmt: skip
