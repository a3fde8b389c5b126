"""The kernel laboratory behind scripts/vm: other kernels, in virtual machines that see this machine's files."""
