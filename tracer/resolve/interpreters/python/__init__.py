"""CPython: `INTERPRETER` is its object."""
