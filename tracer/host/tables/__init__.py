"""Numbers of the kernel → names, by the tables that it prints: control groups, its own functions."""
