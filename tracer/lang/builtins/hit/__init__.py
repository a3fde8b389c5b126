"""Values of a hit: its probe, its process, its stacks, the time."""
