"""Command lines as forks of one interpreter that has imported everything, several at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tests.harness.cli import ONLY_WARM, Done, tracer


class Warms:
    """Runs from several threads, of which `count` are worth while: more than there are processors, since a run waits
    too, but in an emulated machine.
    """

    def __init__(self) -> None:
        self.count = 1 if ONLY_WARM else min(4, (os.cpu_count() or 1) + 1)

    def tracer(self, *args: str, env: Mapping[str, str] | None = None) -> Done:
        """Runs `tracer ARGS` to its end."""
        return tracer(*args, env=env, warm=True)
