"""Unwind entries and line tables."""
