"""A trace as the command line runs it: signals, results on stdout, talk on stderr, and the end."""
