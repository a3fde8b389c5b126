"""Trials of what the kernel does with an instruction."""
