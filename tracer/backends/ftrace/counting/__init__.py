"""Counting in the kernel without a sample, for ftrace: counters of perf, and hist triggers."""
