"""Addresses → names."""
