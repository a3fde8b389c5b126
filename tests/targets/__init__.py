"""Programs to trace, and their builder."""
