"""Ways for kernels that have no links for many places (before Linux 6.6), or only short keys."""
