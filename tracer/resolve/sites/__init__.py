"""Attach points → sites."""
