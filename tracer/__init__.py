"""Traces user programs in one line, through eBPF or through ftrace, with the same answer."""

__version__ = "0.1.0"
