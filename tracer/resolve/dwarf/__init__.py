"""DWARF: debug information of types, functions and lines, and unwind entries."""
