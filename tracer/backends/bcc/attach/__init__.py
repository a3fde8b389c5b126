"""Programs to sites, processes and calls."""
