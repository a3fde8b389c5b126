"""Perf descriptors and what they deliver."""
