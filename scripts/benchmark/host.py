"""The machine that the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Host:
    """The machine, and how busy others kept it: processes that ran on average in the last minute."""

    kernel: str
    processor: str
    cores: int
    load_before: float
    load_after: float
    day: str
    versions: tuple[str, ...] = ()

    @property
    def machine(self) -> str:
        """The machine and versions that figures depend on, in a line."""
        return f"{self.processor}, {self.cores} cores, Linux {self.kernel}"

    @property
    def line(self) -> str:
        """The host in a sentence."""
        load = f"load {self.load_before:.2f} before, {self.load_after:.2f} after"
        return f"{self.machine}; {load}; {self.day}. {', '.join(self.versions)}."


def host(load_before: float, load_after: float, day: str, versions: tuple[str, ...]) -> Host:
    """The facts about this machine."""
    cores = len(os.sched_getaffinity(0))
    return Host(platform.release(), _processor(), cores, load_before, load_after, day, versions)


def version_of_tree(tree: Path) -> str:
    """The commit of a tree, with a + where files were changed since; nothing where it is no clone."""
    command = ["git", "-c", f"safe.directory={tree}", "-C", str(tree), "describe", "--always", "--dirty=+"]
    return _said(command)


def version_of_package(name: str) -> str:
    """The version in Debian's list of packages; nothing elsewhere."""
    return _said(["dpkg-query", "-W", "-f", "${Version}", name])


def _said(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def load() -> float:
    """The load of the last minute."""
    return os.getloadavg()[0]


def _processor() -> str:
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1].strip() if match else platform.machine()
