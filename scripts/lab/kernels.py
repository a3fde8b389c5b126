"""The table of kernels: what each is for, where it comes from, and what it must have."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.lab import LabError

BCC, FTRACE = "bcc", "ftrace"


@dataclass(frozen=True)
class Kernel:
    """A kernel of the laboratory.

    `package`: a pattern of Debian's packages, its first group being the number that grows; None for the one we build.
    `parts`: the packages that it consists of, where it holds no file itself.
    `append` is for its command line. `backends` are those that must work on it; `features` what else its tests may
    count on (see tests/vm): `hist`, hist triggers; `sleepable`, BPF uprobe programs that wait for pages;
    `multi`, uprobe_multi links; `reads`, BPF helpers that copy the kernel's memory;
    `string_page`, strings of an ftrace event that stay in their page (CVE-2024-50067; 5.10.262 writes past it, and what
    that overwrites makes the kernel complain or crash: there is nothing to try); `nop10`, user probes on ten-byte nops
    that become calls. `required` kernels are those that
    scripts/test runs, and that must be to be had.
    """

    name: str
    purpose: str
    package: str | None
    backends: tuple[str, ...]
    features: frozenset[str] = frozenset()
    append: str = ""
    parts: tuple[str, ...] = ()
    required: bool = False


SOURCE_PACKAGE = "linux-source-6.1"

_STOCK_6_1 = r"linux-image-6\.1\.0-(\d+)-amd64(?:-unsigned)?"

KERNELS = (
    Kernel(
        "nobpf",
        "Linux 6.1 built without bpf(): the real fallback to ftrace, with hist triggers",
        None,
        (FTRACE,),
        frozenset({"hist", "string_page"}),
        required=True,
    ),
    Kernel(
        "6.1",
        "Debian 12: both backends, hist triggers, sleepable BPF programs",
        _STOCK_6_1,
        (BCC, FTRACE),
        frozenset({"hist", "reads", "sleepable", "string_page"}),
        required=True,
    ),
    Kernel(
        "6.1-lockdown",
        "the same with lockdown=confidentiality: tracefs is closed, BPF is open",
        _STOCK_6_1,
        (BCC,),
        frozenset({"sleepable", "string_page"}),
        append="lockdown=confidentiality",
    ),
    Kernel(
        "6.12",
        "Debian 12's newer kernel: uprobe_multi links, newer uprobes",
        r"linux-image-6\.12\.(\d+)\+deb12-amd64(?:-unsigned)?",
        (BCC, FTRACE),
        frozenset({"hist", "reads", "sleepable", "multi", "string_page"}),
    ),
    Kernel(
        "7.2",
        "Debian unstable's: user probes on ten-byte nops without a trap",
        r"linux-image-7\.2\.(\d+)\+deb\d+-amd64",
        (BCC, FTRACE),
        frozenset({"hist", "reads", "sleepable", "multi", "string_page", "nop10"}),
        parts=("binary", "modules", "base"),
    ),
    Kernel(
        "5.10",
        "Debian 11: no hist triggers, BPF programs that cannot wait for pages",
        r"linux-image-5\.10\.0-(\d+)-amd64(?:-unsigned)?",
        (BCC, FTRACE),
        frozenset({"reads"}),
    ),
)

FEATURES = frozenset().union(*(kernel.features | {*kernel.backends} for kernel in KERNELS))
"""Whatever a test may need of a kernel."""


def kernel(name: str) -> Kernel:
    """The row of that name. Raises `LabError` where there is none."""
    for row in KERNELS:
        if row.name == name:
            return row
    raise LabError(f"no kernel {name}; there are {', '.join(row.name for row in KERNELS)}")
