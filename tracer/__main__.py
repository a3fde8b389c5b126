"""`python -m tracer` and the command `tracer`."""

from __future__ import annotations

from tracer.cli.app import main

if __name__ == "__main__":
    raise SystemExit(main())
