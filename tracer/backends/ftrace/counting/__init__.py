"""What the kernel counts for ftrace without a sample: counters of perf, and hist triggers."""
