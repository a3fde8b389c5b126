"""Typed clauses as Python functions: BEGIN, END, interval, what ftrace leaves to user space, and the tests' oracle."""
