"""The program that `tracer demo` traces: a small one of our own, or the system's Python where there is no compiler."""
