"""What a caller hands to a function: its parameters, and where their values are."""
