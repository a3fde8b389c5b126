"""Flame graphs: what the page and the picture share."""
