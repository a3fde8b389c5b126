"""Attach points that are not hit, and why; what becomes of breakpoints in the memory of the traced processes."""
