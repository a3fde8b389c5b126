"""Maps of one command, joined by their keys to a table for people."""
