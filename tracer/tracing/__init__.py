"""A trace from start to end: what it consists of, and the loop that runs it."""
