"""Probes defined in tracefs: made, tried, and undone whatever happens."""
