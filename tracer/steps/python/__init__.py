"""Steps → Python: what runs in user space, and what ftrace's hits run."""
