"""What `tracer demo` traces: a small program of our own, or the system's Python where there is no compiler."""
