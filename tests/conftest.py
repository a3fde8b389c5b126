"""What all tests need."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# A shell without job control starts what it puts into the background with SIGINT ignored, `nohup` with SIGHUP; both are
# inherited, and tracer honours them. The tests send these signals and expect them to be heard.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# In CI the same examples each time, so that a failure there is of the change; everywhere else new ones are looked for.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")
