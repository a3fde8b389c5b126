"""The folder of the fixed C."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[3]


def bpf_programs() -> Path:
    """The folder of the fixed C: inside an installed package, else at the top of the source tree."""
    installed = _PACKAGE / "_bpf_programs"
    return installed if installed.is_dir() else _PACKAGE.parent / "bpf_programs"
