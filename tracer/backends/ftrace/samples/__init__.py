"""Turns the records of perf's rings into the tuples that compiled clauses take."""
