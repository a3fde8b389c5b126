"""The limits, as ratios to other contestants of the same run; the figures are those of the two bpftrace on one machine.

Where the peer that a limit is stated against did not run, the floor of the same run stands in for it, scaled by what
both were on that machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scripts.benchmark.model import Results
from scripts.benchmark.spread import Spread, difference, ratio

_NEW = (0, 20)
"""From here on a bpftrace is held against as 0.26 was, before as 0.17."""
_FLOOR_NS = 514.0
"""An empty probe of bpftrace 0.26 on that machine."""


@dataclass(frozen=True)
class Verdict:
    """Whether a row's limit is met by a contestant; `rule` says what must hold, `found` what does."""

    row: str
    who: str
    rule: str
    measured: str
    is_met: bool


@dataclass(frozen=True)
class _Most:
    """At most `ours` where bpftrace 0.17 had `old`, 0.26 `new`, and `floor`, a row, its figure."""

    row: str
    backend: str
    ours: float
    old: float | None
    new: float | None
    floor: tuple[str, float] | None = None


# Start-up and lists fall back to an empty Typer program, 120 ms there; hits to an empty probe. Of a million events 0.26
# loses half, which makes it no measure.
_LIMITS = (
    _Most("begin", "bcc", 160, 241, 401, ("typer", 120)),
    _Most("count5-warm", "bcc", 240, 384, 600, ("typer", 120)),
    _Most("count5-cold", "bcc", 384, 384, 600, ("typer", 120)),
    _Most("string", "bcc", 650, 745, 1048, ("program", _FLOOR_NS)),
    _Most("string-cold", "bcc", 650, 1928, 2220, ("program", _FLOOR_NS)),
    _Most("hist", "ftrace", 2000, 653, 590, ("program", _FLOOR_NS)),
    _Most("printf", "bcc", 2200, 8900, None),
    _Most("printf", "ftrace", 4000, 8900, None),
    _Most("list-usdt", "bcc", 140, 38, 65, ("typer", 120)),
    _Most("list-functions", "bcc", 220, 126, 167, ("typer", 120)),
    _Most("memory-warm", "bcc", 90, 91, 191),
    _Most("sites-10000", "bcc", 1, None, 1),
)
_BESIDE_BCC = {"count": 1.2, "hist": 1.8, "key": 1.8}
"""What a hit may cost on ftrace, as a ratio to bcc."""
# What a hit may add to an empty probe, in ns, of which the newer bpftrace added as much.
_ADDED = {"count": 30.0, "hist": 76.0, "key": 58.0}


def verdicts(results: Results, bpftraces: Sequence[tuple[str, tuple[int, ...]]]) -> list[Verdict]:
    """The verdict on every limit that can be held against these results; `bpftraces` by name and version."""
    every = [*_ratios(results, bpftraces), *_additions(results, bpftraces), *_wholes(results)]
    return [verdict for verdict in every if verdict is not None]


def _ratios(results: Results, bpftraces: Sequence[tuple[str, tuple[int, ...]]]) -> Iterator[Verdict | None]:
    for limit in _LIMITS:
        who = f"tracer {limit.backend}"
        ours = results.cell(limit.row, who).values
        for peer, version in _that_ran(results, limit.row, bpftraces):
            theirs = limit.old if version < _NEW else limit.new
            if theirs is not None:
                spread = ratio(ours, results.cell(limit.row, peer).values)
                yield _within(limit.row, who, limit.ours / theirs, peer, spread)
                break
        else:
            if limit.floor is not None:
                row, was = limit.floor
                spread = ratio(ours, results.floor(row))
                yield _within(limit.row, who, limit.ours / was, _FLOOR_NAMES[row], spread)
    for row, most in _BESIDE_BCC.items():
        spread = ratio(results.cell(row, "tracer ftrace").values, results.cell(row, "tracer bcc").values)
        yield _within(row, "tracer ftrace", most, "tracer bcc", spread)


_FLOOR_NAMES = {"typer": "an empty Typer program", "program": "an empty BPF program"}


def _within(row: str, who: str, most: float, of: str, spread: Spread | None) -> Verdict | None:
    if spread is None:
        return None
    return Verdict(row, who, f"≤ {most:.2f} × {of}", f"{spread.median:.2f}", spread.median <= most)


def _additions(results: Results, bpftraces: Sequence[tuple[str, tuple[int, ...]]]) -> Iterator[Verdict | None]:
    """The verdicts on what a hit adds to an empty program in the same round, beside what the newer bpftrace adds to its
    own.
    """
    floor = results.floor("program")
    for row, was in _ADDED.items():
        added = difference(results.cell(row, "tracer bcc").values, floor)
        newer = [name for name, version in _that_ran(results, row, bpftraces) if version >= _NEW]
        theirs = None
        if newer:
            theirs = difference(results.cell(row, newer[0]).values, results.cell("empty", newer[0]).values)
        if added is None:
            continue
        if theirs is not None:
            most, of = theirs.median, f"what {newer[0]} adds"
        else:
            scale = [value for value in floor if value is not None]
            most, of = was * sorted(scale)[len(scale) // 2] / _FLOOR_NS, f"{was:.0f} ns at a floor of {_FLOOR_NS:.0f}"
        yield Verdict(row, "tracer bcc", f"adds ≤ {most:.0f} ns ({of})", f"{added.median:.0f}", added.median <= most)


def _wholes(results: Results) -> Iterator[Verdict | None]:
    for who, least in (("tracer bcc", 0.9), ("tracer ftrace", 1.0)):
        for row, share in (("printf-whole", least), ("flood-sums-whole", 0.9), ("flood-lines-whole", 0.9)):
            runs = results.cell(row, who).figures
            if runs:
                there = sum(runs)
                rule = f"all there in {share * 100:.0f}% of the runs"
                yield Verdict(row, who, rule, f"{there:.0f} of {len(runs)}", there >= share * len(runs))
        silent = results.cell("printf-silent", who).figures
        if silent:
            yield Verdict("printf-silent", who, "every loss told", f"{max(silent):.1f}%", max(silent) == 0)
    hists = results.cell("hist", "tracer ftrace")
    if hists.figures:
        yield Verdict("hist", "tracer ftrace", "exact", "no" if hists.faults else "yes", not hists.faults)


def _that_ran(
    results: Results, row: str, bpftraces: Sequence[tuple[str, tuple[int, ...]]]
) -> list[tuple[str, tuple[int, ...]]]:
    """The bpftraces with a figure in a row, the oldest first."""
    return sorted((peer for peer in bpftraces if results.has(row, peer[0])), key=lambda peer: peer[1])
