"""What other tools call things, and how those are written here; loaded where there is an error to explain."""
