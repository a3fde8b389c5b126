"""What a pass over the program knows, and how it reports."""
