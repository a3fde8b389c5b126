"""Regular expressions that are compiled when they are first used: a run uses a tenth of those that it imports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any


class _Pattern:
    """Stands for the compiled pattern: each method is looked up once."""

    def __init__(self, text: str | bytes, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


if TYPE_CHECKING:
    regex = re.compile
else:
    regex = _Pattern
