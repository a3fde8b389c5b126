"""The words of other tools, and how they are written here; loaded where there is an error to explain."""
