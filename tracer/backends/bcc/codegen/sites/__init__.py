"""What differs from site to site of an attach point, as C: its arguments, and its texts."""
