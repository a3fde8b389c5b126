"""What debug information says, entry by entry: the units of a file, and how values are written in them."""
