"""These modules tell which places are safe to probe, and what a probe does to instructions."""
