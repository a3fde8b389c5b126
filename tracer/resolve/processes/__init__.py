"""Information about processes from /proc."""
