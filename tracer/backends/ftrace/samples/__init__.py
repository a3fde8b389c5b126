"""From the records of perf's rings to the tuples that compiled clauses take."""
