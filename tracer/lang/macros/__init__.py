"""Macros: definitions that stand for a block where they are called, and the pass that puts it there."""
