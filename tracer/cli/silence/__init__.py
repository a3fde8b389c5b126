"""What becomes of breakpoints in the memory of the traced processes, and what these had mapped when they have ended."""
