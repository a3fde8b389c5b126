"""Stacks for https://www.speedscope.app: a sampled profile for each map.

Source: speedscope's src/lib/file-format-spec.ts, whose JSON schema is at `_SCHEMA`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tracer import __version__
from tracer.render.stacks.profiles import Frame, Page, Profile

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
_SHORT = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}


def document(profiles: Sequence[Profile], page: Page) -> bytes:
    """The file. Stacks whose value is 0 or less have no width there, and are left out."""
    frames: dict[tuple[str, str], int] = {}

    def number(frame: Frame) -> int:
        return frames.setdefault((frame.name, frame.path), len(frames))

    documents = [
        _profile(profile, [[number(frame) for frame in sample.path] for sample in profile.samples if sample.value > 0])
        for profile in profiles
    ]
    shared = [{"name": name, "file": path} if path else {"name": name} for name, path in frames]
    file: dict[str, Any] = {
        "$schema": _SCHEMA,
        "exporter": f"tracer {__version__}",
        "name": page.title or "tracer",
        "activeProfileIndex": 0,
        "shared": {"frames": shared},
        "profiles": documents,
    }
    return json.dumps(file, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _profile(profile: Profile, samples: Sequence[Sequence[int]]) -> dict[str, Any]:
    weights = [sample.value for sample in profile.samples if sample.value > 0]
    unit = _SHORT.get(profile.unit, profile.unit)
    return {
        "type": "sampled",
        "name": profile.name,
        "unit": unit if unit in _UNITS else "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
