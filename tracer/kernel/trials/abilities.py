"""Trials of what this kernel's perf can do."""

from __future__ import annotations

import os

from tracer.dataclass import dataclass
from tracer.kernel import perf
from tracer.kernel.disabled import is_disabled


@dataclass(frozen=True, slots=True)
class Abilities:
    """The abilities of this kernel's perf, by trying."""

    format_lost: bool
    inherit_thread: bool

    @classmethod
    def detect(cls) -> Abilities:
        """Tries both on this very thread."""
        return cls(
            not is_disabled("format_lost")
            and _accepted(perf.Attributes(perf.TYPE_SOFTWARE, perf.SOFTWARE_DUMMY, 0, perf.FORMAT_LOST, perf.DISABLED)),
            not is_disabled("inherit_thread")
            and _accepted(
                perf.Attributes(
                    perf.TYPE_SOFTWARE, perf.SOFTWARE_DUMMY, 0, 0, perf.DISABLED | perf.INHERIT | perf.INHERIT_THREAD
                )
            ),
        )


def _accepted(attributes: perf.Attributes) -> bool:
    try:
        fd = perf.open_event(attributes, 0, -1)
    except OSError:
        return False
    os.close(fd)
    return True
