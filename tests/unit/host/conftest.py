from __future__ import annotations

from tests.unit.resolve.conftest import build

__all__ = ["build"]
