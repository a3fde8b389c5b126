"""Compares what `perf probe` can read with what tracer reads at the same lines: for each place of a line and each
variable there, whether `perf probe -D` makes a fetch argument of it, and whether tracer has a place for it.
"""

from __future__ import annotations

import subprocess
from collections import Counter

from tracer.errors import TracerError
from tracer.kinds.model import AttachPoint, SiteLimit
from tracer.resolve.binary import Binary
from tracer.resolve.dwarf.units.debug_entries import entries_of
from tracer.resolve.elf.file import Elf
from tracer.resolve.sites.line_sites import line_sites
from tracer.resolve.variables.places import Variables


def compared(path: str, source: str, lines: int) -> Counter[tuple[bool, bool]]:
    """Counts the variables of the lines that perf reads, and that tracer reads, at all places of the line."""
    entries = entries_of(Elf(path), keep=True)
    assert entries is not None
    variables = Variables(path, entries, "")
    counts: Counter[tuple[bool, bool]] = Counter()
    for line in range(1, lines + 1):
        point = AttachPoint("uprobe", "", None, path, source=source, line=line)  # type: ignore[arg-type]
        try:
            sites = line_sites(point, Binary(path), SiteLimit(999, 999), [])
        except TracerError:
            continue
        per_site = [variables.locals_at(site) for site in sites]
        names = {variable.name for one in per_site if isinstance(one, tuple) for variable in one if not variable.hidden}
        for name in sorted(names):
            ours = all(
                any(variable.name == name and not variable.hidden and not variable.reason for variable in one)
                for one in per_site if isinstance(one, tuple)
            )  # fmt: skip
            counts[_by_perf(path, f"{source}:{line} v={name}"), ours] += 1
    return counts


def _by_perf(path: str, definition: str) -> bool:
    run = subprocess.run(
        ["perf", "probe", "-x", path, "-D", definition], capture_output=True, text=True, check=False, timeout=60
    )
    return run.returncode == 0 and " v=" in run.stdout
