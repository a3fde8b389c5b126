"""Kernel features that are switched off for a test: TRACER_WITHOUT, a list of their names with commas between them.

Detection by trying cannot be tested on a kernel that has everything. Each detection asks here first, so that whatever
follows from its answer follows here too.
"""

from __future__ import annotations

import os
from functools import lru_cache

from tracer.errors import UsageError

VARIABLE = "TRACER_WITHOUT"

KNOWN = {
    "bpf": "bpf()",
    "ring": "BPF ring buffers (Linux 5.8)",
    "sleepable": "BPF programs that may wait for a page (Linux 6.0)",
    "kernel_reads": "BPF helpers that read the kernel's memory (closed by lockdown=confidentiality)",
    "btf": "the kernel's structures, described by itself (BTF)",
    "atomics": "BPF instructions that add and read, or compare and swap (Linux 5.12)",
    "walks": "BPF programs that walk a map (Linux 5.13)",
    "repeats": "BPF programs whose loops the kernel runs (Linux 5.17)",
    "mappings": "BPF programs that find the mapping of an address (Linux 5.17)",
    "user_registers": "BPF programs that find the registers of a program in the kernel (Linux 5.15)",
    "long_keys": "BPF maps with keys of more than 512 bytes (Linux 5.11)",
    "late_allocation": "BPF maps that take memory for a key when it comes (Linux 6.1)",
    "uprobe_multi": "one BPF link for many sites (Linux 6.6)",
    "task_newtask": "the tracepoint task:task_newtask (Linux 3.4), for --follow",
    "ref_ctr": "semaphores counted by the kernel (Linux 4.20), for both backends",
    "ustring": "fetch arguments of type ustring (Linux 5.3)",
    "hist": "hist triggers of ftrace (CONFIG_HIST_TRIGGERS)",
    "string_bounds": "strings of a hit kept within the kernel's page for them (CVE-2024-50067)",
    "many": "several probes in one trace event (Linux 5.4)",
    "inherit_thread": "perf descriptors inherited by threads alone (Linux 5.13)",
    "format_lost": "lost samples counted for each perf descriptor (Linux 6.0)",
}
"""The names, and what each stands for."""


def is_disabled(name: str) -> bool:
    """Whether this feature, a key of KNOWN, is switched off. Raises `UsageError` for a list with unknown names."""
    assert name in KNOWN, name
    return name in _listed(os.environ.get(VARIABLE, ""))


def switched_off() -> tuple[str, ...]:
    """The features that are switched off, in the order of KNOWN. Raises `UsageError` for unknown names."""
    listed = _listed(os.environ.get(VARIABLE, ""))
    return tuple(name for name in KNOWN if name in listed)


@lru_cache(maxsize=4)
def _listed(text: str) -> frozenset[str]:
    names = frozenset(filter(None, (word.strip() for word in text.split(","))))
    unknown = sorted(names - KNOWN.keys())
    if unknown:
        raise UsageError(f"{VARIABLE}: unknown {', '.join(unknown)}", f"known are {', '.join(KNOWN)}")
    return names
