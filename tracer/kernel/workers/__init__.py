"""Processes beside the tracer: they outlive it, or run while it has no CPU."""
