"""From the registers and the stack of a stopped thread to the addresses of its callers."""
