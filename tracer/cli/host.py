"""What `info` knows of the host beside the backends: the kernel, the processor, the user and their privileges."""

from __future__ import annotations

import os

# linux/capability.h; only those that open a door for tracing.
_CAPABILITIES = {"CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24, "CAP_PERFMON": 38, "CAP_BPF": 39}


def kernel_release() -> str:
    """`uname -r`."""
    return os.uname().release


def host_facts() -> dict[str, str]:
    """Facts that belong to no backend, in the order in which they are shown."""
    from tracer import __version__
    from tracer.kernel.lockdown import lockdown

    facts = {
        "tracer": __version__,
        "python": _python(),
        "machine": os.uname().machine,
        "processors": str(os.cpu_count() or 1),
        "privileges": privileges(),
        "lockdown": lockdown(),
    }
    paranoid = _read("/proc/sys/kernel/perf_event_paranoid")
    if paranoid is not None:
        facts["perf_event_paranoid"] = paranoid
    return facts


def privileges() -> str:
    """Who we are and what that allows: `root`, or the user with the capabilities that matter."""
    user = os.geteuid()
    held = _effective_capabilities()
    names = [name for name, number in _CAPABILITIES.items() if held >> number & 1]
    if user == 0 and len(names) == len(_CAPABILITIES):
        return "root, all capabilities"
    who = "root" if user == 0 else f"user {user}"
    return f"{who}, {', '.join(names)}" if names else f"{who}, no capabilities"


def _effective_capabilities() -> int:
    """CapEff of proc(5), a mask."""
    status = _read("/proc/self/status") or ""
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _python() -> str:
    import sys

    return f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro} ({sys.executable})"


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None
