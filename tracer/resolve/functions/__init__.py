"""Function names → functions."""
