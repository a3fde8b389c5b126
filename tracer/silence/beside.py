"""Observations beside the trace, which are not its answer: without descriptors or memory they are given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.failed_calls import described
from tracer.render.notices import GivenUp


class Beside:
    """Calls methods of objects that have a `task`, in words. What one of them cannot do is told, and not tried again:
    the trace goes on, and its maps are printed.
    """

    def __init__(self, tell: Callable[[GivenUp], None]) -> None:
        self._tell = tell
        self._given_up: set[str] = set()

    def __call__(self, method: Any, *arguments: object, otherwise: Any = None) -> Any:
        """Calls the method; returns its result, or `otherwise` where that is given up."""
        task = method.__self__.task
        if task in self._given_up:
            return otherwise
        try:
            return method(*arguments)
        except BrokenPipeError:  # nobody reads the results
            raise
        except (OSError, ImportError, MemoryError) as error:
            self._given_up.add(task)
            reason = described(error) if isinstance(error, OSError) else str(error) or "there is not enough memory"
        self._tell(GivenUp(f"no more {task}: {reason}"))
        return otherwise
