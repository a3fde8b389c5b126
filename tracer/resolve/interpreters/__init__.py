"""Interpreters in traced processes: their functions as frames of stacks.

Each interpreter is one object of `description.Interpreter`, in a folder of its own; a backend that can walk its frames
at a hit has the other half. `frames` puts them in their places between native ones. There is one, CPython's.
"""
