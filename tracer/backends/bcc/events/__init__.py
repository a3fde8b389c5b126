"""Records from the ring to events."""
