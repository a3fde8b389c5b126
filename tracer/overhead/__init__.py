"""The overhead guard: hits a second, what a hit costs, and a limit."""
