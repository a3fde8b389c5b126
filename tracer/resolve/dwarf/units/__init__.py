"""Debug information, entry by entry: the units of a file, and how values are written in them."""
