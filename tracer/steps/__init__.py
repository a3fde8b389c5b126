"""Typed program → steps: what a clause does, for both printers: C and Python."""
