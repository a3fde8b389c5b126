"""`python -m tracer` and the command `tracer`."""

from __future__ import annotations

import gc
import os

gc.disable()  # what is imported and planned stays to the end; `cli.trace` turns it on again before the events come

try:
    from typing import NoReturn

    from tracer.cli import app
except KeyboardInterrupt:  # Ctrl-C in the first tenth of a second; later ones are `app.main`'s
    raise SystemExit("tracer: interrupted") from None
except Exception as error:  # descriptors, memory or the disk: nothing of ours has run
    # Python forgets to say so itself: "error return without exception set".
    why = "there is not enough memory" if isinstance(error, (MemoryError, SystemError)) else str(error)
    raise SystemExit(f"tracer: error: cannot load Python's modules: {why or type(error).__name__}") from None


def main() -> NoReturn:
    """Runs the command line and ends the process."""
    status = app.main()
    # All is undone, closed and written by now. Tidying up the interpreter takes a tenth of the shortest trace.
    os._exit(status)


if __name__ == "__main__":
    main()
