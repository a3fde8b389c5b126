"""The commands for the usual questions about what programs ask of the kernel, and of the CPU."""
