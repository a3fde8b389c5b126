"""Attach points → the files they mean."""
