"""What all tests need."""

from __future__ import annotations

import signal

# A shell without job control starts what it puts into the background with SIGINT ignored, `nohup` with SIGHUP; both are
# inherited, and tracer honours them. The tests send these signals and expect them to be heard.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
