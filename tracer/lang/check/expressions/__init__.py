"""What an expression means: its type, and the typed node that it becomes."""
