"""`tracer cleanup`: removes from the kernel what a tracer that was killed could not."""

from __future__ import annotations

EXAMPLE = "sudo tracer cleanup"


def command() -> int:
    """Remove what killed tracers left behind.

    Tracers that still run are not disturbed.
    """
    import os

    from tracer.errors import TracerError

    if os.geteuid() != 0:
        raise TracerError("cleanup needs root", "sudo tracer cleanup")
    from tracer.kernel.uprobe_events.cleanup import cleanup

    removed = cleanup()
    for what in removed:
        print(what)
    if not removed:
        print("nothing was left")
    return 0
