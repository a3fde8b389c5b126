"""Finds the addresses of a stopped thread's callers by its registers and its stack."""
