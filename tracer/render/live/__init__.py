"""A table that is drawn anew while a trace runs."""
