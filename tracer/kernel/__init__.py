"""What both backends use of the kernel, without policy: system calls, tracefs, limits."""
