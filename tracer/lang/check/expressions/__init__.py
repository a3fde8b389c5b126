"""Expressions: their types, and the typed nodes that they become."""
