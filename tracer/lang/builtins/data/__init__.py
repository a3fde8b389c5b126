"""Functions of values: integers, bytes, strings, and questions about types."""
