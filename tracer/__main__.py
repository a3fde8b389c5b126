"""`python -m tracer` and the command `tracer`."""

from __future__ import annotations

try:
    from tracer.cli.app import main
except KeyboardInterrupt:  # Ctrl-C in the first tenth of a second; later ones are `main`'s
    raise SystemExit("tracer: interrupted") from None

if __name__ == "__main__":
    raise SystemExit(main())
