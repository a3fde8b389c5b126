"""The kept baseline: ratios of an earlier run with their noise, and what has become worse since."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scripts.benchmark.model import BenchError
from scripts.benchmark.ratios import Ratio
from scripts.benchmark.spread import Spread

KEPT = Path(__file__).with_name("baseline.json")
_LEAST_CHANGE = 0.03
"""Below this part of a ratio nothing is called a change, however steady both runs were."""


@dataclass(frozen=True)
class Baseline:
    """An earlier run: where and when, and its ratios by row and name."""

    machine: str
    day: str
    ratios: Mapping[tuple[str, str], Spread]


@dataclass(frozen=True)
class Change:
    """A ratio beside the one kept. It is beyond the noise where no round of one run reaches into the other's."""

    row: str
    name: str
    was: float
    now: float
    is_beyond_noise: bool

    @property
    def is_worse(self) -> bool:
        """A regression: slower by more than the noise."""
        return self.is_beyond_noise and self.now > self.was

    @property
    def is_better(self) -> bool:
        """Faster by more than the noise."""
        return self.is_beyond_noise and self.now < self.was


def changes(before: Baseline, now: Sequence[Ratio]) -> dict[tuple[str, str], Change]:
    """The change of every ratio that both have."""
    changed = {}
    for ratio in now:
        was = before.ratios.get((ratio.row, ratio.name))
        if was is not None:
            changed[ratio.row, ratio.name] = _change(ratio, was)
    return changed


def _change(now: Ratio, was: Spread) -> Change:
    apart = now.spread.least > was.most or now.spread.most < was.least
    moved = abs(now.spread.median - was.median) > _LEAST_CHANGE * was.median
    return Change(now.row, now.name, was.median, now.spread.median, apart and moved)


def keep(ratios: Sequence[Ratio], machine: str, day: str, path: Path = KEPT) -> None:
    """Keeps the ratios; those of rows that were not measured now stay as they were kept, if the machine is the same."""
    entries: dict[str, dict[str, Any]] = {}
    if path.exists():
        before = load(path)
        if before is not None and before.machine == machine:
            for (row, name), spread in before.ratios.items():
                entries.setdefault(row, {})[name] = _rounded(spread)
    for ratio in ratios:
        entries.setdefault(ratio.row, {})[ratio.name] = _rounded(ratio.spread)
    text = json.dumps({"machine": machine, "day": day, "ratios": entries}, indent=1, ensure_ascii=False)
    part = path.with_suffix(".part")
    part.write_text(text + "\n")
    part.replace(path)


def load(path: Path = KEPT) -> Baseline | None:
    """The kept results; None if there are none."""
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text())
        ratios = {
            (row, name): Spread(**spread) for row, names in kept["ratios"].items() for name, spread in names.items()
        }
        return Baseline(str(kept["machine"]), str(kept["day"]), ratios)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BenchError(f"{path} is no baseline: {error}; scripts/bench --keep makes a new one") from error


def _rounded(spread: Spread) -> dict[str, float]:
    return {name: round(value, 4) for name, value in asdict(spread).items()}
