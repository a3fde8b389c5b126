"""What /proc tells of processes."""
