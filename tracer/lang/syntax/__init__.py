"""Text into the syntax tree."""
