"""What can go wrong with a kernel, in one line each."""

from __future__ import annotations


class LabError(Exception):
    """Something that the user has to know and can do something about."""


class NotAvailable(LabError):
    """The kernel cannot be had here: nobody offers it, or nobody can be asked."""
