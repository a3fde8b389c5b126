"""The kernel laboratory behind scripts/vm: other kernels, in virtual machines that see this machine's files."""


class LabError(Exception):
    """Something that the user has to know and can do something about."""


class NotAvailable(LabError):
    """The kernel cannot be had here: nobody offers it, or nobody can be asked."""
