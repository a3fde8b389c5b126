"""Hist triggers: their lines, their tables, and the maps that they feed."""
