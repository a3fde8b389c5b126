"""A process with its threads and descendants: what they inherit from one another, and when the last has ended."""
