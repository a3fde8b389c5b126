"""The events of a session: defined, and opened; some when the trace begins, some while it runs."""
