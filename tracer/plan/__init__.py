"""Typed program → plan: what runs where, what it needs, and whether a backend can."""
