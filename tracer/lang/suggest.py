"""'Did you mean': the known name nearest to an unknown one.

difflib is imported only when there is an error to explain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

_LONGEST = 256
"""Longer texts are no misspelt names, and take difflib seconds."""


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The known name most like `word`, None where nothing is near."""
    return _nearest(word, tuple(sorted(names)))


@lru_cache(maxsize=256)
def _nearest(word: str, names: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches

    if len(word) > _LONGEST:
        return None
    folded = {name.lower(): name for name in reversed(names)}
    matches = get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


_MOST_LISTED = 24


def listed(names: Sequence[str], none: str) -> str:
    """The names of what there is, the first of very many; `none` where there is nothing."""
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return f"it has {', '.join(names[:_MOST_LISTED])}{more}" if names else none


def hint(word: str, names: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint that names the nearest known name, or `otherwise`."""
    near = nearest(word, names)
    return f"did you mean {near}?" if near else otherwise
