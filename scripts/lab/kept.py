"""The last run of the whole suite on each kernel, kept in the cache: hours of emulation need not be in one piece."""

from __future__ import annotations

import json
from dataclasses import asdict

from scripts.lab.cache import cache_directory
from scripts.lab.suite import Outcome, Result


def keep(outcome: Outcome) -> None:
    """Keeps what came of the whole suite on a kernel, instead of what was kept of it."""
    path = cache_directory() / "results" / f"{outcome.kernel}.json"
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(to_json(outcome))
    part.replace(path)


def kept(kernel: str) -> Outcome | None:
    """What is kept of a kernel."""
    path = cache_directory() / "results" / f"{kernel}.json"
    return from_json(path.read_text()) if path.exists() else None


def to_json(outcome: Outcome) -> str:
    """All of it, as one object."""
    return json.dumps(asdict(outcome))


def from_json(text: str) -> Outcome:
    """The inverse of `to_json`."""
    fields = json.loads(text)
    results = tuple(Result(**each) for each in fields.pop("results"))
    return Outcome(results=results, trouble=tuple(fields.pop("trouble")), **fields)
