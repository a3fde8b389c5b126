"""Kernel lockdown, which closes parts of the kernel to root. Confidentiality closes tracefs and some BPF helpers."""

from __future__ import annotations

import os

_SECURITYFS = "/sys/kernel/security"


def lockdown() -> str:
    """The mode: none, integrity or confidentiality; "unknown: …" where securityfs, which tells, is not mounted."""
    try:
        with open(f"{_SECURITYFS}/lockdown", encoding="ascii") as file:
            text = file.read()
    except OSError:
        # `lsm` is in every securityfs (Linux 4.20); an empty directory is where it would be mounted.
        mounted = os.path.exists(f"{_SECURITYFS}/lsm")
        return "none" if mounted or not os.path.isdir(_SECURITYFS) else "unknown: securityfs is not mounted"
    return text.partition("[")[2].partition("]")[0] or "none"
