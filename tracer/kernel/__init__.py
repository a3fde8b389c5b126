"""The kernel as both backends use it, without policy: system calls, tracefs, limits."""
