"""What a hit offers: its probe, its process, its stacks, the time."""
