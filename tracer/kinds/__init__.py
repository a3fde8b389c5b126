"""The kinds of probes: one object each."""
