"""Function names are resolved to functions, their copies and their lines."""
